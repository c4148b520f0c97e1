// The package as a front of the cross-front tests: front.mjs HOME AGENT. For each line `[operation, fields]` it prints
// a line `{"answer"}` or `{"error"}`.
import { createInterface } from "node:readline";

import { open, Refused } from "relight";

const [home, agent] = process.argv.slice(2);
const store = await open({ home, ...(agent ? { agent } : {}) });

for await (const line of createInterface({ input: process.stdin })) {
  const [operation, fields] = parse(line);
  let said;
  try {
    said = { answer: await store.call(operation, fields) };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const { code, exit, status, message, hint } = error;
    said = { error: { code, exit, status, message, hint: hint ?? null } };
  }
  process.stdout.write(`${write(said)}\n`);
}

/** JSON with large integers: each is a text of its own kind for a moment. */
function parse(text) {
  const marked = text.replace(/([:,[])(-?\d{16,})(?=[,}\]])/g, '$1"bigint:$2"');
  return JSON.parse(marked, (_, item) => (/^bigint:/.test(item) ? BigInt(item.slice(7)) : item));
}

function write(value) {
  const text = JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `bigint:${item}` : item));
  return text.replace(/"bigint:(-?\d+)"/g, "$1");
}
