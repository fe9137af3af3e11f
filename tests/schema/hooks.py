"""Gives schemathesis the things of a scene, and keeps which operations succeeded.

`SCENE` names the file that `run.py` wrote, `REACHED` the file that gets a line for each operation and status.
"""

import json
import os

import schemathesis

with open(os.environ["SCENE"], encoding="utf-8") as file:
    SCENE = json.load(file)
CHANGES_OF_KEYS = {"keys.update", "keys.rotate", "keys.revoke"}
# What is to be there until the end.
KEPT = {SCENE["own_key"]}
for call, (named, _) in SCENE["calls"].items():
    if not call.endswith(".delete") and call not in CHANGES_OF_KEYS:
        KEPT.update(one for known in named.values() for one in known)
REACHED = open(os.environ["REACHED"], "a", buffering=1, encoding="utf-8")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for item in raw_schema["paths"].values():
        for operation in item.values():
            ids, bodies = SCENE["calls"].get(operation["operationId"], [{}, []])
            for parameter in operation.get("parameters", []):
                known = ids.get(parameter["name"])
                if parameter["in"] == "path" and known:
                    # Ids that are invented name nothing, and say nothing of what lies behind a 404.
                    parameter["schema"] = {"anyOf": [{"type": "string", "enum": known}, parameter["schema"]]}
                    parameter["examples"] = {str(at): {"value": it} for at, it in enumerate(known)}
            if bodies:
                content = operation["requestBody"]["content"]["application/json"]
                content["examples"] = {str(at): {"value": it} for at, it in enumerate(bodies)}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Keeps it from ending what the rest of the run is about, whose ids it has learned from answers."""
    name = case.operation.definition.raw["operationId"]
    ids = SCENE["calls"].get(name, [{}, []])[0]
    # A key that is changed may be the run's own, without which all else would be 401.
    if not ids or not (name.endswith(".delete") or name in CHANGES_OF_KEYS):
        return
    # The last names what is ended, those before it to whom it belongs.
    parameter = list(ids)[-1]
    if case.path_parameters.get(parameter) in KEPT:
        case.path_parameters[parameter] = ids[parameter][-1]


@schemathesis.hook
def filter_failure(context, failure, case, response):
    # A bad item of a batch of emails is answered in its place, and the rest is sent.
    batch = case.operation.definition.raw["operationId"] == "emails.send_batch"
    return not (batch and failure.title == "Schema-violating request accepted")


@schemathesis.hook
def after_call(context, case, response):
    REACHED.write(f"{case.operation.definition.raw['operationId']} {response.status_code}\n")
