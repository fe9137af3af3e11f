"""Calls every operation of a running server as its description says, and much that it does not say.

    python run.py BASE_URL API_KEY EXAMPLES [ARGUMENT ..]

BASE_URL is a running server that delivers to loopback, API_KEY an administrator's key. EXAMPLES is how many calls are
made up for each operation; further arguments go to schemathesis. The last line is `ok`. It fails when an answer is a
5xx, or has a status, content type, header or body that is not described; when a call that is ruled out is taken; and
when an operation did not succeed once, as then its answer was not judged.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
# Its answer does not end.
EXCLUDED = ["stream.follow"]
# It is read, and not called among the others.
DESCRIPTION = "system.openapi"
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
]
WAIT_SECONDS = 20


class Receiver(BaseHTTPRequestHandler):
    """Takes what is sent to `/ok`, and nothing else."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200 if self.path == "/ok" else 500)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Scene:
    """Makes what the operations are about."""

    def __init__(self, base, key, receiver):
        self.base, self.key, self.receiver = base, key, receiver
        self.calls = {}

    def call(self, method, path, body=None):
        url = path if path.startswith("http") else self.base + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Authorization": f"Bearer {self.key}"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")

    def until(self, path, wanted):
        """The items of a list, when there are enough."""
        end = time.monotonic() + WAIT_SECONDS
        while len(data := self.call("GET", path)["data"]) < wanted:
            if time.monotonic() > end:
                sys.exit(f"{path} has {len(data)} items, not {wanted}")
            time.sleep(0.05)
        return [item["id"] for item in data]

    def known(self, operations, ids, bodies=()):
        for operation in operations.split():
            self.calls[operation] = [ids, list(bodies)]

    def made(self, path, *bodies):
        return [self.call("POST", path, body)["id"] for body in bodies]

    def hooks(self):
        ok, fail = f"{self.receiver}/ok", f"{self.receiver}/fail"
        webhooks = self.made(
            "/v1/webhooks", *({"url": ok, "events": ["a.b"], "description": f"{n}"} for n in range(5))
        )
        kept, renewed, paused = webhooks[0], webhooks[1], webhooks[2]
        once = {"kind": "custom", "waits_seconds": []}
        event = {"type": "a.b", "data": {"n": 1}}
        events = [self.call("POST", "/v1/events", event)["id"] for _ in range(3)]
        arrived = self.until(f"/v1/webhooks/{kept}/deliveries", 3)
        new = {"url": ok, "events": ["c.*"], "timeout_seconds": 5, "headers": {"X-A": "1"}}
        self.known("webhooks.create", {}, [new, {"url": fail, "events": ["*"], "schedule": once}])
        self.known("webhooks.get webhooks.list_attempts webhooks.list_deliveries", {"id": [kept, paused]})
        self.known("webhooks.list_replays", {"id": [kept]})
        self.known("webhooks.update", {"id": [paused]}, [{"status": "paused"}, {"status": "active", "url": ok}])
        self.known("webhooks.delete", {"id": webhooks[3:]})
        self.known("webhooks.rotate_secret", {"id": [renewed]})
        self.known("webhooks.test", {"id": [kept]}, [{}, {"event_type": "a.b"}])
        span = {"since": "2020-01-01T00:00:00Z"}
        self.known("webhooks.replay webhooks.recover", {"id": [kept]}, [{}, span])
        self.known("webhooks.replay_delivery", {"id": [kept], "delivery_id": arrived})
        self.known("events.publish", {}, [event, {"type": "d", "data": None}])
        self.known("events.publish_batch", {}, [{"events": [event, event]}])
        self.known("events.get", {"id": events})
        return [kept, events[0], arrived[0]]

    def requests(self):
        ok, fail = f"{self.receiver}/ok", f"{self.receiver}/fail"
        source = self.call("POST", "/v1/sources", {"name": "inbox"})
        others = self.made("/v1/sources", *({"name": f"spare {n}"} for n in range(3)))
        mine, place = source["id"], f"/v1/sources/{source['id']}/destinations"
        good = {"kind": "http", "url": ok}
        bad = {"kind": "http", "url": fail, "attempts": 1}
        held = {"kind": "http", "url": ok, "paused": True}
        [arrives, fails, waits, *spare] = self.made(place, good, bad, held, good, good)
        for n in range(4):
            self.call("POST", source["url"], {"n": n})
        requests = self.until(f"/v1/requests?source={mine}", 4)
        failed = self.until(f"/v1/deliveries?destination={fails}&state=failed", 4)
        pending = self.until(f"/v1/deliveries?destination={waits}&state=pending", 4)
        delivered = self.until(f"/v1/deliveries?destination={arrives}&state=delivered", 4)
        answer = {"status": 202, "content_type": "text/plain", "body": "thanks"}
        signed = {"kind": "hmac", "secret": ["one", "two"], "header": "X-Signature"}
        repeats = {"json_pointer": "/id", "hours": 24}
        new = {"name": "new", "response": answer, "verification": signed, "dedupe": repeats}
        self.known("sources.create", {}, [{"name": "plain"}, new])
        self.known("sources.get destinations.list", {"id": [mine]})
        self.known("sources.update", {"id": others[:1]}, [{"retention_days": 7}, {"response": answer}])
        self.known("sources.rotate_token", {"id": others[:1]})
        self.known("sources.delete", {"id": others[1:]})
        self.known("destinations.create", {"id": [mine]}, [good, {**bad, "rate_per_second": 5}])
        self.known("destinations.get destinations.list_retries", {"id": [mine], "destination_id": [fails]})
        self.known("destinations.update", {"id": [mine], "destination_id": [waits]}, [{"max_in_flight": 2}])
        self.known("destinations.delete", {"id": [mine], "destination_id": spare})
        since = {"since": "2020-01-01T00:00:00Z"}
        self.known("destinations.retry", {"id": [mine], "destination_id": [fails]}, [since])
        self.known("requests.get requests.get_body requests.replay", {"id": requests[:2]})
        self.known("requests.delete", {"id": requests[2:]})
        self.known("deliveries.get deliveries.list_attempts", {"id": delivered[:1] + failed[:1] + pending[:1]})
        self.known("deliveries.retry", {"id": failed})
        self.known("deliveries.cancel", {"id": pending})
        return [mine, requests[0], delivered[0]]

    def mail(self):
        file = {"filename": "a.txt", "content": "aGVsbG8="}
        email = {"from": "Jane <a@x.example>", "to": "b@y.example", "subject": "Hi", "text": "t"}
        later = {**email, "scheduled_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86400))}
        [sent, *scheduled] = self.made("/v1/emails", {**email, "attachments": [file]}, *[later] * 4)
        self.known("emails.send", {}, [email, {**email, "to": ["b@y.example", "c@y.example"], "tags": {"a": "b"}}])
        self.known("emails.send_batch", {}, [{"emails": [email, later]}])
        self.known("emails.get emails.get_content emails.list_events emails.get_source", {"id": [sent]})
        self.known("emails.get_attachment", {"id": [sent], "index": ["0"]})
        self.known("emails.update", {"id": scheduled[:2]}, [{"subject": "New"}])
        self.known("emails.cancel", {"id": scheduled[2:]})
        domains = self.made("/v1/domains", *({"name": f"{n}.example"} for n in "abc"))
        self.known("domains.create", {}, [{"name": "new.example"}])
        self.known("domains.get domains.update domains.verify", {"id": domains[:1]})
        self.known("domains.delete", {"id": domains[1:]})
        suppressed = self.made("/v1/suppressions", *({"email": f"{n}@z.example"} for n in "abc"))
        self.known("suppressions.add", {}, [{"email": "a@z.example"}, {"email": "new@z.example"}])
        self.known("suppressions.delete", {"id": suppressed})
        return [sent, domains[0], suppressed[0]]

    def templates(self):
        templates = self.made("/v1/templates", *({"name": f"t{n}"} for n in range(4)))
        content = {"subject": "Hi {{ name }}", "text": "Hello", "props": {"name": "you"}}
        for template in templates[:2]:
            self.call("POST", f"/v1/templates/{template}/content", content)
        self.call("POST", f"/v1/templates/{templates[0]}/versions")
        shown = {"id": templates[:1]}
        self.known("templates.create", {}, [{"name": "new"}])
        self.known("templates.get templates.list_versions", shown)
        self.known("templates.duplicate", shown, [{}, {"name": "copy", "slug": "a-copy"}])
        self.known("templates.preview", shown, [{"props": {"name": "Jo"}}])
        self.known("templates.render", {}, [content])
        send = {"from": "a@x.example", "to": "b@y.example", "props": {"name": "Jo"}}
        self.known("templates.send", shown, [send])
        self.known("templates.update", {"id": templates[1:2]}, [{"description": "ours"}])
        self.known("templates.set_content", {"id": templates[1:2]}, [content])
        self.known("templates.publish", {"id": templates[1:2]})
        self.known("templates.delete", {"id": templates[2:]})
        return templates[:1]

    def workspaces(self):
        keys = self.made("/v1/keys", *({"name": f"k{n}", "scopes": ["sources:read"]} for n in range(6)))
        self.known("keys.create", {}, [{"name": "new", "scopes": ["events:read"], "mode": "test"}])
        self.known("keys.get", {"id": keys[:1]})
        self.known("keys.update", {"id": keys[:1]}, [{"name": "renamed"}])
        self.known("keys.rotate", {"id": keys[1:2]})
        self.known("keys.revoke", {"id": keys[2:3]})
        self.known("keys.delete", {"id": keys[4:]})
        other = self.made("/v1/workspaces", {"name": "other"})
        self.known("workspaces.create", {}, [{"name": "new", "owners": ["a@x.example"]}])
        self.known("workspaces.grant_credits", {"id": other}, [{"delta": 10, "note": "welcome"}])
        self.known("workspace.update", {}, [{"name": "ours"}])
        return keys[:1]

    def write(self, path):
        found = self.hooks() + self.requests() + self.mail() + self.templates() + self.workspaces()
        self.known("system.find", {"id": found})
        own = self.call("GET", "/v1/server")["key"]["id"]
        path.write_text(json.dumps({"own_key": own, "calls": self.calls}), encoding="utf-8")


def never_reached(base, reached):
    """The operations that did not succeed once."""
    with urllib.request.urlopen(f"{base}/v1/openapi.json", timeout=30) as answer:
        items = json.load(answer)["paths"].values()
    succeeded = {line.split()[0] for line in reached.read_text().splitlines() if line.split()[1].startswith("2")}
    named = {operation["operationId"] for item in items for operation in item.values()}
    return sorted(named - succeeded - {*EXCLUDED, DESCRIPTION})


def main(base, key, examples, *arguments):
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        scene, reached = Path(directory) / "scene.json", Path(directory) / "reached"
        Scene(base, key, f"http://127.0.0.1:{receiver.server_port}").write(scene)
        # Beside the interpreter, so that it is the version that is asked for.
        tool = Path(sys.executable).with_name("schemathesis")
        command = [tool, "--no-color", "run", f"{base}/v1/openapi.json", "-H", f"Authorization: Bearer {key}"]
        command += ["--checks", ",".join(CHECKS), "--max-examples", examples, "--seed", "1", "--warnings", "off"]
        command += ["--phases", "examples,coverage,fuzzing", "--generation-database", "none"]
        command += ["--request-timeout", "20", "--continue-on-failure"]
        for name in EXCLUDED:
            command += ["--exclude-operation-id", name]
        settings = {"SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"), "SCENE": str(scene), "REACHED": str(reached)}
        settings["PYTHONDONTWRITEBYTECODE"] = "1"
        run = subprocess.run(command + list(arguments), env={**os.environ, **settings}, cwd=directory)
        missed = never_reached(base, reached) if reached.exists() else ["any"]
    if missed:
        print(f"never succeeded: {', '.join(missed)}")
    if run.returncode or missed:
        sys.exit(1)
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
