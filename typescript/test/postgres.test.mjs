// The same on a store in PostgreSQL, which several machines may share.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { after } from "node:test";

import { Fenced, Held, open } from "relight";

import { home, start } from "./support.mjs";

/** Leases of those that are killed or frozen here. */
const LEASE = "1s";
/** Longer than any wait here takes. */
const LONG = "60s";
const PROGRAM = process.env.RELIGHT_POSTGRES;

/** The address of a PostgreSQL that is there for this module; none where there is none. */
async function server() {
  if (!PROGRAM) return undefined;
  const program = spawn(PROGRAM, { stdio: ["pipe", "pipe", "inherit"] });
  const exit = once(program, "exit");
  after(() => (program.stdin.end(), exit));
  const { value } = await createInterface({ input: program.stdout })[Symbol.asyncIterator]().next();
  if (value === undefined) assert.deepEqual(await exit, [69, null], "there is no PostgreSQL");
  return value;
}

const address = await server();
const missing = PROGRAM ? "install the package postgresql" : "RELIGHT_POSTGRES names no relight-postgres";
const skip = address ? false : `SKIPPED: stores in PostgreSQL (${missing})`;

/** The store of a test of its own, and what its programs need to use it. */
let schemas = 0;
async function opened(context) {
  const folder = home(context);
  const store = `${address}&schema=typescript_${schemas++}`;
  const environment = { RELIGHT_HOME: folder, RELIGHT_STORE: store };
  const relight = await open({ home: folder, store });
  context.after(async () => {
    await relight.close();
    assert.equal(existsSync(join(folder, "relight.db")), false);
  });
  /** A program that is killed after the test if it is still there. */
  const run = (...words) => {
    const program = start("postgres.mjs", words, environment);
    context.after(() => program.child.kill("SIGKILL"));
    return program;
  };
  return { relight, run };
}

test("a task with steps ends and gives its values again", { skip }, async (context) => {
  const { relight } = await opened(context);
  const first = await relight.task("t", { title: "Weekly report" });
  assert.deepEqual(await first.step("a", () => ({ rows: [1, 2] })), { rows: [1, 2] });
  first.close();
  const task = await relight.claim({ agent: "second", wait: LONG });
  assert.deepEqual([task.resumed, task.record.title, task.record.done_steps], [true, "Weekly report", ["a"]]);
  assert.deepEqual(await task.step("a", () => assert.fail("the step was recorded")), { rows: [1, 2] });
  await task.done();
  const { status, steps_done: done } = await relight.call("task.show", { task: "t" });
  assert.deepEqual([status, done], ["completed", 1]);
});

test("the task of a killed process continues after its last finished step", { skip }, async (context) => {
  const { relight, run } = await opened(context);
  await relight.add("t");
  const holder = run("holder", LEASE);
  await holder.line("in c");
  await assert.rejects(relight.task("t"), Held);
  holder.child.kill("SIGKILL");
  assert.deepEqual(await holder.end(), { code: null, signal: "SIGKILL", printed: "a\nb\nin c\n" });
  // It waits for the end of the lease: another machine could not see that the process is gone.
  const task = await relight.claim({ agent: "second", wait: LONG });
  assert.deepEqual([task.id, task.record.done_steps], ["t", ["a", "b"]]);
  const ran = [];
  for (const name of ["a", "b", "c", "d"]) {
    assert.equal(await task.step(name, () => (ran.push(name), name)), name);
  }
  await task.done();
  assert.deepEqual(ran, ["c", "d"]);
});

test("two processes that claim from one queue do each task once", { skip }, async (context) => {
  const { relight, run } = await opened(context);
  const names = Array.from({ length: 40 }, (_, number) => `t${number}`);
  for (const name of names) await relight.add(name);
  const workers = [run("worker"), run("worker")];
  // Both have one; the others are there for whoever is faster.
  for (const worker of workers) await worker.line(/^t\d+$/);
  for (const worker of workers) worker.child.stdin.write("\n");
  const taken = [];
  for (const worker of workers) {
    const { code, printed } = await worker.end();
    assert.equal(code, 0);
    taken.push(...printed.trim().split("\n"));
  }
  assert.deepEqual(taken.sort(), names.sort());
  assert.equal((await relight.call("task.list", { status: "completed" })).items.length, 40);
});

test("a process that lost its lease while it was frozen is fenced", { skip }, async (context) => {
  const { relight, run } = await opened(context);
  await relight.add("t");
  const frozen = run("frozen", LEASE);
  await frozen.line("held");
  frozen.child.kill("SIGSTOP");
  const task = await relight.claim({ agent: "second", wait: LONG });
  assert.equal(await task.step("b", () => "second"), "second");
  frozen.child.stdin.write("\n");
  frozen.child.kill("SIGCONT");
  assert.deepEqual(await frozen.end(), { code: 0, signal: null, printed: "held\n77\n77\n" });
  // It changed nothing, and the newer holder still has the task.
  await task.done();
  const { items } = await relight.call("step.list", { task: "t" });
  assert.deepEqual(items.map(({ name, fence }) => [name, fence]), [["a", 1], ["b", 2]]);
});

test("only the newest turn of a session ends it", { skip }, async (context) => {
  const { sessions } = (await opened(context)).relight;
  const first = await sessions.begin("dm:42", { id: "conversation-7", set: { model: "x" } });
  const turn = await sessions.begin("dm:42", { id: "conversation-7" });
  assert.deepEqual([turn.generation, turn.context], [first.generation + 1, { model: "x" }]);
  await assert.rejects(first.end(), Fenced);
  assert.equal((await sessions.show("dm:42")).state, "active");
  await turn.end();
  assert.equal((await sessions.show("dm:42")).state, "idle");
});

test("the session of a killed gateway is found after its lease", { skip }, async (context) => {
  const { relight, run } = await opened(context);
  const gateway = run("gateway", LEASE);
  await gateway.line("begun");
  const found = async () => (await relight.sessions.recover({ policy: "resume_pending" })).items.map(({ key }) => key);
  assert.deepEqual(await found(), []);
  gateway.child.kill("SIGKILL");
  const deadline = Date.now() + 30_000;
  let keys = [];
  while (keys.length === 0) {
    assert.ok(Date.now() < deadline, "its lease has ended");
    keys = await found();
  }
  assert.deepEqual(keys, ["dm:42"]);
  const turn = await relight.sessions.begin("dm:42", { id: "conversation-7" });
  assert.equal(turn.resumed, true);
  await turn.end();
});
