"""Drives a running server with the published Bird client, and verifies what it delivers.

    python bird_webhooks.py BASE_URL API_KEY NODE_DIRECTORY

BASE_URL is a server started with `--dev`: the receivers are plain http on this machine. API_KEY is one of its keys,
of a workspace that has no webhooks and has replayed nothing today. NODE_DIRECTORY is where `npm ci` put node_modules.
Prints `ok <step>` for each step; the first failure ends it with exit code 1.
"""

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pydantic
import standardwebhooks
from bird import APIStatusError, Bird, RateLimitError, ValidationError, WebhookVerificationError

# For what the server does in the background.
WAIT_SECONDS_MAX = 30
POLL_SECONDS = 0.02
REPLAYS_PER_DAY = 20
SECRETS_MAX = 5

ID = r"[0-9a-hjkmnp-tv-z]{26}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


class Failure(Exception):
    """What was expected and what came."""


def equal(actual, expected, what):
    if actual != expected:
        raise Failure(f"{what}: expected {expected!r}, got {actual!r}")


def matches(actual, pattern, what):
    if not isinstance(actual, str) or re.fullmatch(pattern, actual) is None:
        raise Failure(f"{what}: expected {pattern}, got {actual!r}")


def true(condition, what):
    if not condition:
        raise Failure(what)


def refused(kind, status, call):
    """The error that `call` must end with."""
    try:
        answer = call()
    except kind as error:
        equal(error.status_code, status, f"status of {error}")
        true(error.request_id, f"the error names its request: {error}")
        true(error.code and error.name and error.message, f"the error has code, name and message: {error!r}")
        return error
    raise Failure(f"expected {kind.__name__} with status {status}, got {answer!r}")


def until(what, found):
    """Asks `found` until it gives something."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        value = found()
        if value:
            return value
        true(time.monotonic() < deadline, f"not within {WAIT_SECONDS_MAX} s: {what}")
        time.sleep(POLL_SECONDS)


class Request:
    """A request as a receiver saw it. Header names are in lower case."""

    def __init__(self, headers, body):
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body

    @property
    def id(self):
        return self.headers["webhook-id"]

    @property
    def signatures(self):
        return self.headers["webhook-signature"].split(" ")


class Receiver:
    """A web server that keeps what it is sent, and answers what its table says."""

    def __init__(self):
        self.answers = {"/good": (200, b"thanks"), "/bad": (500, b"broken")}
        self._seen = {}
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                with receiver._lock:
                    receiver._seen.setdefault(self.path, []).append(Request(self.headers, body))
                status, answer = receiver.answers.get(self.path, (404, b""))
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"

    def take(self, path):
        """What came at a path since it was last asked."""
        with self._lock:
            return self._seen.pop(path, [])

    def take_one(self, path):
        requests = self.take(path)
        equal(len(requests), 1, f"requests at {path}")
        return requests[0]


class Run:
    """The client, the receiver, and what was received."""

    def __init__(self, base_url, api_key, node_directory):
        self.base_url = base_url.rstrip("/")
        self.node_directory = node_directory
        self.api_key = api_key
        # Without retries of its own, so that an error of the server is not smoothed over.
        self.client = Bird(api_key=api_key, base_url=base_url, max_retries=0)
        self.receiver = Receiver()
        self.replays = []
        # For the other verifier: (secret, request).
        self.deliveries = []

    @property
    def webhooks(self):
        return self.client.webhooks

    def publish(self, type_, data):
        """Publishes an event, its data given as JSON text; gives its id."""
        request = urllib.request.Request(
            f"{self.base_url}/v1/events",
            data=f'{{"type": "{type_}", "data": {data}}}'.encode(),
            headers={"authorization": f"Bearer {self.api_key}", "content-type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS_MAX) as response:
            answer = json.load(response)
            equal(response.status, 202, "status of POST /v1/events")
        matches(answer["id"], f"whe_{ID}", "id of the event")
        equal(answer["deliveries"], 1, f"deliveries of {type_}")
        return answer["id"]

    def attempts(self, webhook_id, count):
        """The webhook's attempts, newest first, once there are `count` and all have ended."""

        def found():
            data = self.webhooks.attempts(webhook_id).data
            true(len(data) <= count, f"more than {count} attempts: {data!r}")
            return len(data) == count and all(it.status != "pending" for it in data) and data

        return until(f"{count} attempts of {webhook_id}", found)

    def deliver(self, type_, data, webhook_id, attempts, path):
        """Publishes an event and gives its attempt and its request; `attempts` is how many there are then."""
        event_id = self.publish(type_, data)
        attempt = self.attempts(webhook_id, attempts)[0]
        request = self.receiver.take_one(path)
        equal(attempt.event_id, event_id, "event of the newest attempt")
        equal(request.id, event_id, "webhook-id")
        return attempt, request

    def verify(self, request, *secrets):
        """Gives what the request says; each of the secrets must verify it, alone."""
        for secret in secrets:
            said = standardwebhooks.Webhook(secret).verify(request.body, request.headers)
            event = self.webhooks.unwrap(request.body, request.headers, secret=secret).root
            equal(
                (event.type, event.timestamp),
                (said["type"], said["timestamp"]),
                "the event for both verifiers",
            )
            self.deliveries.append((secret, request))
        equal(list(said), ["type", "timestamp", "data"], "fields of the body")
        matches(said["timestamp"], TIME, "timestamp in the body")
        return said

    def replay(self, webhook_id, **window):
        self.replays.append(datetime.now(timezone.utc).date())
        equal(self.webhooks.replay(webhook_id, **window), None, "answer to a replay")


def check_webhook(webhook, url, events, status, description):
    matches(webhook.id, f"whk_{ID}", "id")
    equal(webhook.url, url, "url")
    equal(webhook.events, events, "events")
    equal(webhook.status, status, "status")
    equal(webhook.filter, None, "filter")
    equal(webhook.description, description, "description")
    equal(
        "description" in webhook.model_fields_set, description is not None, "whether there is a description"
    )
    matches(webhook.created_at, TIME, "created_at")
    matches(webhook.updated_at, TIME, "updated_at")


def check_secret(secret):
    matches(secret, "whsec_[A-Za-z0-9+/]+={0,2}", "secret")
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    true(24 <= len(key) <= 64, f"a secret has 24 to 64 bytes, this one {len(key)}")


def golden_vector(run):
    moment = datetime.fromtimestamp(1614265330, tz=timezone.utc)
    verifier = standardwebhooks.Webhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = verifier.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", moment, '{"test": 2432232314}')
    equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "signature")


def create(run):
    url = run.receiver.url
    run.good = run.webhooks.create(
        url=f"{url}/good", events=["order.paid", "order.refunded"], description="Orders"
    )
    check_webhook(run.good, f"{url}/good", ["order.paid", "order.refunded"], "active", "Orders")
    check_secret(run.good.secret)
    # Its own schedule keeps automatic attempts out of the way of the replays.
    schedule = {"kind": "custom", "waits_seconds": [3600], "jitter": 0}
    run.bad = run.webhooks.create(
        url=f"{url}/bad", events=["stock.*"], options={"extra_body": {"schedule": schedule}}
    )
    check_webhook(run.bad, f"{url}/bad", ["stock.*"], "active", None)
    check_secret(run.bad.secret)
    true(run.bad.secret != run.good.secret, "two webhooks have the same secret")
    # What the client says outright is the default.
    run.all = run.webhooks.create(url=f"{url}/all?of=it", events=["*"], destination={"type": "webhook"})
    check_webhook(run.all, f"{url}/all?of=it", ["*"], "active", None)


def create_refused(run):
    error = refused(
        ValidationError, 422, lambda: run.webhooks.create(url="ftp://127.0.0.1/good", events=["order.paid"])
    )
    equal((error.type, error.param), ("validation_error", "url"), "what is wrong")
    stranger = Bird(api_key="rst_live_nobody", base_url=run.base_url, max_retries=0)
    refused(APIStatusError, 401, stranger.webhooks.list)


def list_all(run):
    good, bad, all_ = run.good.id, run.bad.id, run.all.id
    page = run.webhooks.list()
    equal([it.id for it in page.data], [all_, bad, good], "webhooks, newest first")
    equal(page.has_next_page(), False, "whether a page follows the only one")
    equal(page.response["has_more"], False, "has_more of the only page")
    true("total" not in page.response, "a total that nobody asked for")
    equal(run.webhooks.list(include_total=True, limit=1).response["total"], 3, "total")
    equal([it.id for it in run.webhooks.list(limit=3)], [all_, bad, good], "a page that is just full")
    equal(
        [it.id for it in run.webhooks.list(sort="created_at", order="asc")], [good, bad, all_], "oldest first"
    )
    equal([it.id for it in run.webhooks.list(sort="url", order="asc")], [all_, bad, good], "by url")
    equal(
        [it.id for it in run.webhooks.list(sort="url", order="desc", limit=1)],
        [good, bad, all_],
        "by url, back",
    )
    for webhook in page.data:
        true("secret" not in (webhook.model_extra or {}), "a list shows secrets")


def list_pages(run):
    ids = [run.all.id, run.bad.id, run.good.id]
    first = run.webhooks.list(limit=1)
    equal([it.id for it in first.data], ids[:1], "first page")
    equal(
        (first.has_next_page(), first.response["has_more"]), (True, True), "whether a page follows the first"
    )
    equal(first.response["prev_cursor"], None, "prev_cursor of the first page")
    equal([it.id for it in first], ids, "all pages in turn")
    second = run.webhooks.list(limit=1, starting_after=first.next_cursor)
    equal([it.id for it in second.data], ids[1:2], "second page")
    back = run.webhooks.list(limit=1, ending_before=second.response["prev_cursor"])
    equal([it.id for it in back.data], ids[:1], "the page before the second")


def list_by_url(run):
    url = run.receiver.url
    equal([it.id for it in run.webhooks.list(url=f"{url}/good")], [run.good.id], "those with one url")
    equal(
        [it.id for it in run.webhooks.list(url=f"{url}/all?of=it", limit=1)],
        [run.all.id],
        "those with a query",
    )
    equal(list(run.webhooks.list(url=f"{url}/goo")), [], "a url is matched as a whole")


def get(run):
    webhook = run.webhooks.get(run.good.id)
    check_webhook(webhook, f"{run.receiver.url}/good", ["order.paid", "order.refunded"], "active", "Orders")
    equal((webhook.id, webhook.created_at), (run.good.id, run.good.created_at), "the webhook")
    true("secret" not in (webhook.model_extra or {}), "get shows the secret")


def update(run):
    url, events = f"{run.receiver.url}/good", ["order.paid", "order.refunded"]
    changed = run.webhooks.update(run.good.id, description="Shop")
    check_webhook(changed, url, events, "active", "Shop")
    equal(changed.created_at, run.good.created_at, "created_at after a change")
    true(changed.updated_at >= run.good.updated_at, "updated_at went back")
    # The client has no other way to take a description away.
    check_webhook(run.webhooks.update(run.good.id, description=""), url, events, "active", None)
    check_webhook(run.webhooks.update(run.good.id, filter=None), url, events, "active", None)
    check_webhook(
        run.webhooks.update(run.good.id, events=["order.paid"]), url, ["order.paid"], "active", None
    )
    elsewhere = f"{run.receiver.url}/elsewhere"
    check_webhook(run.webhooks.update(run.good.id, url=elsewhere), elsewhere, ["order.paid"], "active", None)
    check_webhook(run.webhooks.update(run.good.id, url=url), url, ["order.paid"], "active", None)
    check_webhook(run.webhooks.update(run.good.id, status="paused"), url, ["order.paid"], "paused", None)
    check_webhook(run.webhooks.get(run.good.id), url, ["order.paid"], "paused", None)


def test_delivered(run):
    # It is still paused, and stays so.
    result = run.webhooks.test(run.good.id)
    equal((result.status, result.response_status_code), ("delivered", 200), "result")
    equal((result.response_body, result.error), ("thanks", None), "what the receiver said")
    request = run.receiver.take_one("/good")
    said = run.verify(request, run.good.secret)
    equal((said["type"], said["data"]), ("order.paid", {}), "the synthetic event")
    equal(run.webhooks.get(run.good.id).status, "paused", "status after a test")
    equal(run.webhooks.update(run.good.id, status="active").status, "active", "status")
    # Any type will do, also one that it does not subscribe to.
    run.webhooks.test(run.good.id, event_type="invoice.sent")
    equal(run.verify(run.receiver.take_one("/good"), run.good.secret)["type"], "invoice.sent", "type")
    equal(run.webhooks.attempts(run.good.id).data, [], "attempts after tests")


def test_failed(run):
    result = run.webhooks.test(run.bad.id, event_type="stock.low")
    equal((result.status, result.response_status_code), ("failed", 500), "result")
    equal((result.response_body, result.error), ("broken", None), "what the receiver said")
    equal(run.verify(run.receiver.take_one("/bad"), run.bad.secret)["type"], "stock.low", "type")
    # There is no exact type to begin with.
    run.webhooks.test(run.bad.id)
    equal(run.verify(run.receiver.take_one("/bad"), run.bad.secret)["type"], "webhook.test", "type")


def test_unreachable(run):
    # Bound and not listening: nobody else can take the port, and every connection is refused.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        run.webhooks.update(run.all.id, url=f"http://127.0.0.1:{closed.getsockname()[1]}/")
        result = run.webhooks.test(run.all.id)
    equal(
        (result.status, result.response_status_code, result.response_body), ("failed", None, None), "result"
    )
    true(result.error, "the result says why nobody was reached")
    # It would receive all that is published from here on.
    run.webhooks.delete(run.all.id)


def deliver(run):
    event_id = run.publish("order.paid", '{"order": "A-1", "amount": 10.50, "note": "Grüße ☃"}')
    attempt = run.attempts(run.good.id, 1)[0]
    true(attempt.id, "the attempt has an id")
    equal((attempt.event_id, attempt.event_type), (event_id, "order.paid"), "event of the attempt")
    equal((attempt.status, attempt.response_status_code), ("delivered", 200), "result of the attempt")
    equal(attempt.url, f"{run.receiver.url}/good", "url of the attempt")
    matches(attempt.attempted_at, TIME, "attempted_at")
    request = run.receiver.take_one("/good")
    equal((request.id, len(request.signatures)), (event_id, 1), "webhook-id and number of signatures")
    equal(request.headers["content-type"], "application/json", "content-type")
    matches(request.headers["user-agent"], r"Restante/\d\S*", "user-agent")
    said = run.verify(request, run.good.secret)
    data = {"order": "A-1", "amount": 10.5, "note": "Grüße ☃"}
    equal((said["type"], said["data"]), ("order.paid", data), "the event")
    true(b"10.50" in request.body, f"numbers are kept as written: {request.body!r}")
    try:
        run.webhooks.unwrap(request.body, request.headers, secret=run.bad.secret)
    except WebhookVerificationError:
        return
    raise Failure("another webhook's secret verifies the delivery")


def rotate_secret(run):
    rotated = run.webhooks.rotate_secret(run.good.id).secret
    check_secret(rotated)
    secrets = [run.good.secret, rotated]
    true(rotated != run.good.secret, "the new secret is the old one")
    _, request = run.deliver("order.paid", '{"order": "A-2"}', run.good.id, 2, "/good")
    equal(len(request.signatures), 2, "signatures while two secrets are valid")
    run.verify(request, *secrets)
    while len(secrets) < SECRETS_MAX:
        secrets.append(run.webhooks.rotate_secret(run.good.id).secret)
    equal(len(set(secrets)), SECRETS_MAX, "different secrets")
    error = refused(APIStatusError, 409, lambda: run.webhooks.rotate_secret(run.good.id))
    equal(error.type, "conflict_error", "type of the error")
    _, request = run.deliver("order.paid", '{"order": "A-3"}', run.good.id, 3, "/good")
    run.verify(request, *secrets)


def attempts(run):
    newest_first = run.attempts(run.good.id, 3)
    ids = [it.id for it in newest_first]
    times = [it.attempted_at for it in newest_first]
    equal(times, sorted(set(times), reverse=True), "attempted_at, newest first")

    def shown(**query):
        return [it.id for it in run.webhooks.attempts(run.good.id, **query).data]

    equal(shown(limit=1), ids[:1], "the newest attempt")
    equal(shown(before=times[0]), ids[1:], "attempts before the newest")
    equal(shown(after=times[2]), ids[:2], "attempts after the oldest")
    equal(shown(before=times[0], after=times[2]), ids[1:2], "attempts between the two")
    equal(shown(before=times[2]), [], "attempts before the oldest")
    walked, before = [], None
    while page := run.webhooks.attempts(run.good.id, limit=1, before=before).data:
        walked += [it.id for it in page]
        before = page[-1].attempted_at
    equal(walked, ids, "page after page")
    for query in ({"limit": 101}, {"before": "yesterday"}):
        refused(ValidationError, 422, lambda: run.webhooks.attempts(run.good.id, **query))


def replay(run):
    bad = run.bad.id
    first, first_request = run.deliver("stock.low", '{"item": 1}', bad, 1, "/bad")
    second, second_request = run.deliver("stock.gone", '{"item": 2}', bad, 2, "/bad")
    for attempt in (first, second):
        equal((attempt.status, attempt.response_status_code), ("failed", 500), "result of the attempt")
    run.receiver.answers["/bad"] = (200, b"mended")

    def replayed(attempt, request, count, **window):
        run.replay(bad, **window)
        newest = run.attempts(bad, count)[0]
        equal((newest.event_id, newest.status), (attempt.event_id, "delivered"), "the replayed attempt")
        true(newest.id != attempt.id, "a replay is an attempt of its own")
        again = run.receiver.take_one("/bad")
        equal((again.id, again.body), (request.id, request.body), "webhook-id and bytes of a replay")
        run.verify(again, run.bad.secret)

    # Both bounds are inclusive. The older failure, which would be first, is outside.
    moment = second.attempted_at
    replayed(second, second_request, 3, since=moment, until=moment)
    # What is acknowledged is left out: only the older one goes again.
    replayed(first, first_request, 4)
    # Nothing is left. Microseconds and an offset are how the client's users write times.
    run.replay(bad, since=(datetime.now(timezone.utc) - timedelta(hours=6)).isoformat())
    backwards = {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
    for window in (backwards, {"since": "yesterday"}):
        refused(ValidationError, 422, lambda: run.webhooks.replay(bad, **window))


def replay_quota(run):
    def use_up():
        # Twice as many, for a day that ends meanwhile.
        for _ in range(2 * REPLAYS_PER_DAY):
            run.replay(run.bad.id)

    error = refused(RateLimitError, 429, use_up)
    equal(error.name, "WebhookReplayQuotaExceeded", "name of the error")
    equal(error.retry_after, None, "retry-after")
    # The last one is the one that was refused.
    accepted, day = run.replays[:-1], run.replays[-1]
    if set(accepted) == {day}:
        equal(len(accepted), REPLAYS_PER_DAY, "replays accepted on one day")
    equal(len(run.attempts(run.bad.id, 4)), 4, "attempts after replays of nothing")
    equal(run.receiver.take("/bad"), [], "requests of replays of nothing")


def delete(run):
    good = run.good.id
    equal(run.webhooks.delete(good), None, "answer to a deletion")
    equal([it.id for it in run.webhooks.list()], [run.bad.id], "webhooks that are left")
    calls = [
        lambda: run.webhooks.get(good),
        lambda: run.webhooks.update(good, description="gone"),
        lambda: run.webhooks.test(good),
        lambda: run.webhooks.rotate_secret(good),
        lambda: run.webhooks.attempts(good),
        lambda: run.webhooks.replay(good),
        lambda: run.webhooks.delete(good),
        lambda: run.webhooks.get("whk_nonsense"),
    ]
    for call in calls:
        equal(refused(APIStatusError, 404, call).type, "not_found_error", "type of the error")
    run.webhooks.delete(run.bad.id)
    equal(list(run.webhooks.list()), [], "webhooks that are left")


def verify_with_node(run):
    lines = [
        json.dumps({"secret": secret, "headers": request.headers, "body": request.body.decode()})
        for secret, request in run.deliveries
    ]

    def node(lines):
        script = Path(__file__).with_name("verify.mjs")
        return subprocess.run(
            ["node", script, run.node_directory],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS_MAX,
        )

    verified = node(lines)
    true(verified.returncode == 0, f"verify.mjs said\n{verified.stdout}{verified.stderr}")
    equal(verified.stdout.count("ok "), len(lines), "deliveries verified")
    forged = json.loads(lines[0])
    forged["body"] += " "
    equal(node([*lines, json.dumps(forged)]).returncode, 1, "exit code of verify.mjs for a forged delivery")


STEPS = [
    golden_vector,
    create,
    create_refused,
    list_all,
    list_pages,
    list_by_url,
    get,
    update,
    test_delivered,
    test_failed,
    test_unreachable,
    deliver,
    rotate_secret,
    attempts,
    replay,
    replay_quota,
    delete,
    verify_with_node,
]


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: bird_webhooks.py BASE_URL API_KEY NODE_DIRECTORY")
    # All is on this machine.
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]
    run = Run(*sys.argv[1:])
    for step in STEPS:
        try:
            step(run)
        except Failure as error:
            sys.exit(f"failed {step.__name__}: {error}")
        except pydantic.ValidationError as error:
            # One per variant of a union, thus many.
            faults = [f"{'.'.join(map(str, it['loc']))}: {it['msg']}" for it in error.errors()[:5]]
            sys.exit(f"failed {step.__name__}: the client cannot read the answer as {error.title}: {faults}")
        print(f"ok {step.__name__}", flush=True)


if __name__ == "__main__":
    main()
