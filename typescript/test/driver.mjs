// The driver of `./prove kill --driver node`: driver.mjs HOME CHECKPOINTS LEDGER TASK
//
// Twenty steps under all four rules. What happened is told to the ledger, each line synced, as the other drivers do.
import { randomBytes } from "node:crypto";
import { closeSync, existsSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";

import { InDoubt, open, Refused } from "relight";

const [COMPLETED, IN_DOUBT, UNEXPECTED] = [0, 75, 99];
const RULES = ["keyed", "repeatable", "verify", "once"];
const [home, , ledger, id] = process.argv.slice(2);

function append(...fields) {
  const file = openSync(ledger, "a");
  writeSync(file, `${fields.join("\t")}\n`);
  fdatasyncSync(file);
  closeSync(file);
}

function happened(step) {
  const text = existsSync(ledger) ? readFileSync(ledger, "utf8") : "";
  return text.split("\n").some((line) => line.startsWith(`effect\t${id}\t${step}\t`));
}

async function work() {
  const store = await open({ home });
  const names = Array.from({ length: 20 }, (_, at) => `s${String(at + 1).padStart(2, "0")}`);
  let task;
  try {
    // However often it was killed: no limit of the task is part of this proof.
    task = await store.task(id, { agent: "prover", steps: names, force: true });
  } catch (error) {
    const shown = await store.call("task.show", { task: id }).catch(() => ({}));
    if (shown.status === "completed") return COMPLETED;
    throw error;
  }
  append("started", id, task.fence);
  for (const [at, step] of names.entries()) {
    const repeat = RULES[(at + 1) % RULES.length];
    const act = ({ idempotencyKey }) => {
      const token = `${step}-${randomBytes(8).toString("hex")}`;
      append("effect", id, step, idempotencyKey, token);
      return token;
    };
    // What it gave is in the ledger; that it gave something is all that is asked here.
    const verify = () => (happened(step) ? null : undefined);
    append("ack", id, step, (await task.step(step, { repeat, verify }, act)) ?? "");
  }
  await task.done();
  append("done", id);
  return COMPLETED;
}

try {
  process.exitCode = await work();
} catch (error) {
  if (error instanceof InDoubt) process.exitCode = IN_DOUBT;
  else {
    console.error(error instanceof Refused ? `${error.code}: ${error.message}` : error);
    process.exitCode = UNEXPECTED;
  }
}
