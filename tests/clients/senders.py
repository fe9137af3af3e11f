"""Sends to a running server as senders do, signed with what they publish.

    python senders.py BASE_URL API_KEY NODE_DIRECTORY

BASE_URL is a running server, API_KEY one of its keys. NODE_DIRECTORY is where `npm ci` put node_modules. Prints
`ok <kind>` for each sender; the first failure ends it with exit code 1.
"""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from slack_sdk.signature import SignatureVerifier

BODY = '{"id": "evt_1", "text": "grüße"}'
SECRETS = {
    "github": "It's a Secret to Everybody",
    "stripe": "whsec_7d1b1c3e0f6a4a52",
    "standard_webhooks": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "slack": "8f742231b10e8888abcd99yyyzzz85a5",
    "shopify": "hush",
}
# The times of these are signed.
TIMED = {"stripe", "standard_webhooks", "slack"}
TOLERANCE_SECONDS = 300


class Failure(Exception):
    """What was expected and what came."""


def equal(actual, expected, what):
    if actual != expected:
        raise Failure(f"{what}: expected {expected!r}, got {actual!r}")


class Server:
    def __init__(self, base, key):
        self.base, self.key = base, key

    def send(self, method, path, body=None, headers=None):
        """Status, headers and body of the answer."""
        data = None if body is None else body.encode()
        request = urllib.request.Request(self.base + path, data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}"}
        status, _, answer = self.send(method, path, None if body is None else json.dumps(body), headers)
        if status >= 300:
            raise Failure(f"{method} {path}: {status} {answer!r}")
        return json.loads(answer)


def signed(kind, secret, body, seconds, node):
    """The headers that the sender adds."""
    if kind == "slack":
        signature = SignatureVerifier(secret).generate_signature(timestamp=str(seconds), body=body)
        return {"X-Slack-Request-Timestamp": str(seconds), "X-Slack-Signature": signature}
    if kind == "shopify":
        # It publishes no signer. This is what its documentation says.
        mac = hmac.new(secret.encode(), body.encode(), hashlib.sha256).digest()
        return {"X-Shopify-Hmac-Sha256": base64.b64encode(mac).decode()}
    request = {"kind": kind, "secret": secret, "body": body, "seconds": seconds}
    script = Path(__file__).with_name("sign.mjs")
    command = ["node", str(script), node]
    run = subprocess.run(command, input=json.dumps(request) + "\n", capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Failure(f"{kind} cannot sign: {run.stderr}")
    return json.loads(run.stdout)


def check(server, kind, node):
    secret, now = SECRETS[kind], int(time.time())
    verification = {"kind": kind, "secret": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx", secret]}
    source = server.call("POST", "/v1/sources", {"name": kind, "verification": verification})
    intake = f"/in/{source['token']}"

    def sends(headers, body, status):
        came, answered, answer = server.send("POST", intake, body, {"Content-Type": "application/json", **headers})
        equal(came, status, f"{kind}: {answer!r}")
        if secret.encode() in answer:
            raise Failure(f"{kind}: the answer has the secret")
        return server.call("GET", f"/v1/requests/{answered['x-request-id']}")

    headers = signed(kind, secret, BODY, now, node)
    taken = sends(headers, BODY, 200)
    equal((taken["rejected"], taken["rejected_because"]), (False, None), kind)

    tampered = sends(headers, BODY.replace("evt_1", "evt_2"), 401)
    equal(tampered["rejected"], True, f"{kind}, another body")
    equal(tampered["deliveries"], [], f"{kind}, another body")
    if "matches" not in tampered["rejected_because"]:
        raise Failure(f"{kind}, another body: {tampered['rejected_because']}")

    bare = sends({}, BODY, 401)
    if "is missing" not in bare["rejected_because"]:
        raise Failure(f"{kind}, without a signature: {bare['rejected_because']}")

    other = signed(kind, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSy", BODY, now, node)
    equal(sends(other, BODY, 401)["rejected"], True, f"{kind}, another secret")

    if kind in TIMED:
        old = signed(kind, secret, BODY, now - TOLERANCE_SECONDS - 60, node)
        because = sends(old, BODY, 401)["rejected_because"]
        if "s ago" not in because:
            raise Failure(f"{kind}, signed long ago: {because}")


def main():
    base, key, node = sys.argv[1:]
    for kind in SECRETS:
        check(Server(base, key), kind, node)
        print(f"ok {kind}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"failed: {failure}")
