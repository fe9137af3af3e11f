// Signs as senders do, with what they publish.
//
//     node sign.mjs NODE_DIRECTORY < requests.ndjson
//
// NODE_DIRECTORY is where `npm ci` put node_modules. Each line of the input is a request:
// {"kind": "github|stripe|standard_webhooks", "secret": "…", "body": "…", "seconds": 1614265330}. Each is answered by one
// line: the headers that its sender adds.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const directory = process.argv[2];
if (directory === undefined) {
  console.error("usage: node sign.mjs NODE_DIRECTORY < requests.ndjson");
  process.exit(2);
}
// Modules are looked up beside the file that asks: this one asks as if it were a file of that directory.
const require = createRequire(join(resolve(directory), "sign.mjs"));
const { Webhook } = require("standardwebhooks");
const stripe = require("stripe");
const octokit = join(resolve(directory), "node_modules/@octokit/webhooks-methods/dist-node/index.js");
const github = await import(pathToFileURL(octokit));

const SIGN = {
  github: async ({ secret, body }) => {
    const signature = await github.sign(secret, body);
    if (!(await github.verify(secret, body, signature))) throw new Error("it does not verify itself");
    return { "X-Hub-Signature-256": signature };
  },
  stripe: async ({ secret, body, seconds }) => {
    const { webhooks } = new (stripe.default ?? stripe)("sk_test_none");
    const header = webhooks.generateTestHeaderString({ payload: body, secret, timestamp: seconds });
    return { "Stripe-Signature": header };
  },
  standard_webhooks: async ({ secret, body, seconds }) => ({
    "webhook-id": "msg_1",
    "webhook-timestamp": String(seconds),
    "webhook-signature": new Webhook(secret).sign("msg_1", new Date(seconds * 1000), body),
  }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  console.log(JSON.stringify(await SIGN[request.kind](request)));
}
