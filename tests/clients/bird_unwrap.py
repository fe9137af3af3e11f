"""Unwraps deliveries with the published Bird client.

    python bird_unwrap.py SECRET

Standard input is a delivery a line: a JSON object with `headers` and `body` (text). Prints for each, as a line, what the
client made of it: `model`, the name of the class, and `event`, its content. One that the client refuses ends it with
exit code 1.
"""

import json
import sys

from bird import Bird


def main():
    client = Bird(api_key="rst_live_nobody", base_url="http://127.0.0.1:1", max_retries=0)
    for line in sys.stdin:
        delivery = json.loads(line)
        event = client.webhooks.unwrap(delivery["body"].encode(), delivery["headers"], secret=sys.argv[1]).root
        shown = {"model": type(event).__name__, "event": event.model_dump(mode="json")}
        print(json.dumps(shown), flush=True)


main()
