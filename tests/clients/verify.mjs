// Verifies deliveries with the published Standard Webhooks client for JavaScript.
//
//     node verify.mjs NODE_DIRECTORY < deliveries.ndjson
//
// NODE_DIRECTORY is where `npm ci` put node_modules. Each line of the input is one delivery:
// {"secret": "whsec_…", "headers": {name: value}, "body": "…"}. Each is answered by one line. The exit code is 1
// when one of them does not verify, 2 when there are none.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

const directory = process.argv[2];
if (directory === undefined) {
  console.error("usage: node verify.mjs NODE_DIRECTORY < deliveries.ndjson");
  process.exit(2);
}
// Modules are looked up beside the file that asks: this one asks as if it were a file of that directory.
const require = createRequire(join(resolve(directory), "verify.mjs"));
const { Webhook } = require("standardwebhooks");

const GOLDEN = {
  secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
  timestamp_seconds: 1614265330,
  body: '{"test": 2432232314}',
  signature: "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};
const signature = new Webhook(GOLDEN.secret).sign(
  GOLDEN.id,
  new Date(GOLDEN.timestamp_seconds * 1000),
  GOLDEN.body,
);
if (signature !== GOLDEN.signature) {
  console.error(`the golden vector signs as ${signature}`);
  process.exit(2);
}

let lines = 0;
let failed = 0;
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  lines += 1;
  const { secret, headers, body } = JSON.parse(line);
  const id = headers["webhook-id"];
  try {
    new Webhook(secret).verify(body, headers);
    console.log(`ok ${lines} ${id}`);
  } catch (error) {
    failed += 1;
    console.log(`failed ${lines} ${id}: ${error.message}`);
  }
}
if (lines === 0) {
  console.error("no deliveries were given");
  process.exit(2);
}
process.exitCode = failed === 0 ? 0 : 1;
