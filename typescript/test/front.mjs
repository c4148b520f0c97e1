// The package as a front of the cross-front tests: front.mjs HOME AGENT. For each line `[operation, fields]` it prints
// a line `{"answer"}` or `{"error"}`.
import { createInterface } from "node:readline";

import { open, Refused } from "relight";

const [home, agent] = process.argv.slice(2);
const store = await open({ home, ...(agent ? { agent } : {}) });

for await (const line of createInterface({ input: process.stdin })) {
  const [operation, fields] = JSON.parse(line);
  let said;
  try {
    said = { answer: await store.call(operation, fields) };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { code, exit, status, message, hint } = error;
    said = { error: { code, exit, status, message, hint: hint ?? null } };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
