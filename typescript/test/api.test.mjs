import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import test from "node:test";

import relight, { Conflict, Fenced, Held, InDoubt, NotFound, open, Refused, sessions } from "relight";

import { home, opened, start } from "./support.mjs";

test("a finished step gives its recorded value and is not run again", async (context) => {
  const store = await opened(context);
  let runs = 0;
  const work = async (task) => [
    await task.step("fetch", () => ((runs += 1), { words: ["one", "two"] })),
    await task.step("count", async () => 2),
  ];
  const first = await store.task("report-7", { title: "Weekly report", payload: { to: 1 } });
  assert.equal(first.resumed, false);
  assert.deepEqual(first.payload, { to: 1 });
  assert.deepEqual(await work(first), [{ words: ["one", "two"] }, 2]);
  first.close();
  const again = await store.task("report-7");
  assert.equal(again.resumed, true);
  assert.deepEqual(again.record.done_steps, ["fetch", "count"]);
  assert.deepEqual(await work(again), [{ words: ["one", "two"] }, 2]);
  assert.equal(runs, 1);
  await again.done();
  const shown = await store.call("task.show", { task: "report-7" });
  assert.equal(shown.status, "completed");
});

test("the same name is the next occurrence, and what JSON cannot hold is refused", async (context) => {
  const store = await opened(context);
  const task = await store.task("t");
  assert.equal(await task.step("n", () => 1), 1);
  assert.equal(await task.step("n", () => 2), 2);
  assert.equal(await task.step("n", { occurrence: 1 }, () => 3), 1);
  assert.equal(await task.step("date", () => new Date(0)), "1970-01-01T00:00:00.000Z");
  assert.equal(await task.step("nothing", () => undefined), null);
  await assert.rejects(task.step("nan", () => Number.NaN), { code: "invalid" });
  const codec = { encode: (date) => date.getTime(), decode: (ms) => new Date(ms) };
  assert.deepEqual(await task.step("day", { codec }, () => new Date(5)), new Date(5));
  assert.deepEqual(await task.step("day", { codec, occurrence: 1 }, () => new Date(6)), new Date(5));
});

test("integers keep their digits: a number where that is exact, else a bigint", async (context) => {
  const store = await opened(context);
  const payload = { id: 9007199254740993n, least: -(2n ** 63n), most: 2n ** 64n - 1n, small: 7n, part: 0.1234567890123456 };
  const text = { quoted: 'the id "9007199254740993"', path: "C:\\", escaped: '\\"9007199254740993' };
  const task = await store.task("t", { payload: { ...payload, ...text, list: [9007199254740993n, "9007199254740993"] } });
  const read = { ...payload, small: 7, ...text, list: [9007199254740993n, "9007199254740993"] };
  assert.deepEqual(task.payload, read);
  assert.deepEqual((await store.call("task.show", { task: "t" })).payload, read);
  let seen;
  const charge = () => task.step("charge", { occurrence: 1 }, () => ((seen = task.payload.id), { charged: seen }));
  assert.deepEqual(await charge(), { charged: 9007199254740993n });
  assert.deepEqual(await charge(), { charged: 9007199254740993n });
  assert.deepEqual([seen, await task.step("large", () => 2 ** 60)], [9007199254740993n, 2n ** 60n]);
  await store.records.put("r", 2n ** 63n);
  assert.equal(await store.records.get("r"), 2n ** 63n);
  await assert.rejects(store.records.put("r", { value: -(2n ** 63n) - 1n }), {
    code: "invalid",
    message: /record.put has an integer of more than 64 bits at value/,
  });
});

test("what JSON cannot hold is refused however deep it is, and the step is not finished", async (context) => {
  const store = await opened(context);
  const task = await store.task("t");
  const circle = {};
  circle.circle = circle;
  const lost = [Number.NaN, new Map([[1, 2]]), new Set(), () => 1, Symbol("s"), 2n ** 64n, new Error("e"), new Uint8Array(1),
    Promise.resolve(), new Date(Number.NaN), circle];
  for (const value of lost) {
    await assert.rejects(task.step("deep", { occurrence: 1 }, () => ({ a: [{ value }] })), { code: "invalid" });
  }
  await assert.rejects(task.step("ratio", () => ({ ratio: Number.NaN })), { message: /step ratio of task t has NaN at ratio/ });
  await assert.rejects(task.step("input", { input: { ratio: Number.NaN } }, () => 1), { code: "invalid" });
  await assert.rejects(store.add("u", { payload: { value: new Map() } }), { code: "invalid" });
  await assert.rejects(store.task("u", { payload: [() => 1] }), { code: "invalid" });
  const kept = { date: new Date(0), buffer: Buffer.from("a"), none: undefined, list: [undefined] };
  assert.deepEqual(await task.step("deep", { occurrence: 1 }, () => kept), {
    date: "1970-01-01T00:00:00.000Z",
    buffer: { type: "Buffer", data: [97] },
    list: [null],
  });
});

test("the first run gives what a replay gives", async (context) => {
  const store = await opened(context);
  const codec = { encode: (value) => value, decode: (json) => `read ${json}` };
  const work = async (task) => [
    await task.step("codec", { codec }, () => "text"),
    await task.step("zero", () => -0),
    await task.step("none", () => undefined),
  ];
  const first = await store.task("t");
  const given = await work(first);
  first.close();
  const replayed = await work(await store.task("t"));
  assert.ok(given.every((value, at) => Object.is(value, replayed[at])), `${given} is not ${replayed}`);
  assert.equal(given[0], "read text");
});

test("a codec that cannot read what it wrote leaves the step unfinished", async (context) => {
  const task = await (await opened(context)).task("t");
  const codec = { encode: (value) => value, decode: () => { throw new Error("unreadable"); } };
  await assert.rejects(task.step("a", { codec }, () => ({})), { message: "unreadable" });
  assert.equal(await task.step("a", { occurrence: 1 }, () => "ran again"), "ran again");
});

test("a step that throws is a failed try and can be run again", async (context) => {
  const task = await (await opened(context)).task("t");
  const runs = [];
  const run = (about) => {
    runs.push([about.tries, about.inDoubt, about.idempotencyKey]);
    if (runs.length === 1) throw new Error("the disk is full");
    return "ok";
  };
  await assert.rejects(task.step("write", run), { message: "the disk is full" });
  assert.equal(await task.step("write", run), "ok");
  assert.deepEqual(runs.map(([tries, inDoubt]) => [tries, inDoubt]), [[1, false], [2, false]]);
  assert.ok(runs[0][2] && runs[0][2] === runs[1][2], "one key for all tries");
});

test("another input than the recorded one is refused", async (context) => {
  const task = await (await opened(context)).task("t");
  assert.equal(await task.step("ask", { input: { q: 1 } }, () => "a"), "a");
  await assert.rejects(task.step("ask", { input: { q: 2 }, occurrence: 1 }, () => "b"), Refused);
});

test("errors have class, code, exit and hint", async (context) => {
  const store = await opened(context);
  await assert.rejects(store.call("task.shwo"), (error) => {
    assert.ok(error instanceof NotFound && !(error instanceof Held));
    assert.equal(error.code, "not_found");
    assert.equal(error.exit, 1);
    assert.equal(error.hint, "did you mean task.show?");
    return true;
  });
  await assert.rejects(store.call("task.show", { task: "nobody" }), { code: "not_found", exit: 1, status: 404 });
  await assert.rejects(store.call("task.show", { task: "nobody" }), NotFound);
  await assert.rejects(store.task("a b"), { code: "invalid" });
  await assert.rejects(open({ store: "oracle:x" }), Refused);
  const task = await store.task("t", { steps: ["a", "b"] });
  await assert.rejects(task.done(), { code: "steps_left_open" });
  await task.skip("a", "not today");
  await task.skip("b", "not today");
  await task.done();
  await assert.rejects(task.step("late", () => 1), Refused);
});

test("each code has the class that it has in Python", () => {
  const require = createRequire(import.meta.url);
  const common = require("relight");
  const { refused } = require(join(dirname(require.resolve("relight")), "errors.js"));
  const nameOf = (code) => refused(JSON.stringify({ code, exit: 1, status: 409, message: "m" })).name;
  const classes = {
    Fenced: ["fenced", "not_held"],
    Held: ["held", "busy"],
    InDoubt: ["in_doubt"],
    NotFound: ["not_found"],
    Nothing: ["nothing"],
    Conflict: ["conflict", "illegal"],
    Ended: ["ended"],
    WaitsForPerson: ["waits_for_person"],
    UsedUp: ["used_up"],
    StepsLeftOpen: ["steps_left_open"],
    Invalid: ["invalid"],
    Draining: ["draining"],
    StoreError: ["io", "config", "damaged", "invalid_data", "unreachable", "store_unavailable"],
    Refused: ["not_supervised"],
  };
  for (const [name, codes] of Object.entries(classes)) assert.deepEqual(codes.map(nameOf), codes.map(() => name));
  for (const name of Object.keys(classes)) assert.equal(typeof common[name], "function", name);
});

test("a task of another process is held, and a late writer is fenced", async (context) => {
  const folder = home(context);
  const other = start("hold.mjs", ["t"], { RELIGHT_HOME: folder });
  await other.line("held");
  const store = await open({ home: folder });
  await assert.rejects(store.task("t"), Held);
  other.child.kill("SIGKILL");
  await other.end();
  const task = await store.task("t");
  assert.equal(task.resumed, true);
  // A person gives it to somebody else.
  const lost = new Promise((resolve) => task.signal.addEventListener("abort", resolve));
  // Waiting for that alone keeps no program alive.
  const alive = setInterval(() => {}, 1_000);
  await store.call("task.cancel", { task: "t", reason: "enough" });
  await lost;
  clearInterval(alive);
  assert.ok(task.signal.reason instanceof Refused);
  await assert.rejects(task.step("late", () => 1), Fenced);
});

test("a step under once that was cut off is in doubt, and the task waits for a person", async (context) => {
  const folder = home(context);
  const other = start("hold.mjs", ["t", "once"], { RELIGHT_HOME: folder });
  await other.line("in the step");
  other.child.kill("SIGKILL");
  await other.end();
  const store = await open({ home: folder });
  const task = await store.task("t");
  await assert.rejects(
    task.step("act", { repeat: "once" }, () => assert.fail("it is not repeated")),
    (error) => error instanceof InDoubt && error.exit === 75 && error.hint.includes("relight step resolve"),
  );
  assert.equal(task.isOver, true);
  assert.equal((await store.call("task.show", { task: "t" })).status, "blocked");
});

test("a step under verify that was cut off is asked about", async (context) => {
  const folder = home(context);
  for (const happened of [true, false]) {
    const id = `t-${happened}`;
    const other = start("hold.mjs", [id, "verify"], { RELIGHT_HOME: folder });
    await other.line("in the step");
    other.child.kill("SIGKILL");
    await other.end();
    const store = await open({ home: folder });
    const task = await store.task(id);
    const verify = (about) => (assert.equal(about.inDoubt, true), happened ? "found" : undefined);
    assert.equal(await task.step("act", { repeat: "verify", verify }, () => "acted"), happened ? "found" : "acted");
    await task.done();
  }
});

test("a step with a function verify is under the rule verify", async (context) => {
  const store = await opened(context);
  const task = await store.task("t");
  assert.equal(await task.step("act", { verify: () => "found" }, () => "acted"), "acted");
  assert.equal((await store.call("step.list", { task: "t" })).items[0].rule, "verify");
});

test("a step that happened and whose value cannot be recorded stays in doubt", async (context) => {
  const folder = home(context);
  const other = start("hold.mjs", ["t", "verify"], { RELIGHT_HOME: folder });
  await other.line("in the step");
  other.child.kill("SIGKILL");
  await other.end();
  const task = await (await open({ home: folder })).task("t");
  const act = () => assert.fail("it happened before");
  await assert.rejects(task.step("act", { verify: () => Number.NaN }, act), { code: "invalid" });
  assert.equal(await task.step("act", { occurrence: 1, verify: () => "found" }, act), "found");
});

test("a step under once that happened is not repeated when its value cannot be recorded", async (context) => {
  const store = await opened(context);
  let calls = 0;
  const pay = (task) => task.step("pay", { repeat: "once" }, () => (calls++, Number.NaN));
  await assert.rejects(store.run("t", pay), { code: "invalid" });
  // Only a person decides whether it happened.
  await assert.rejects(store.call("task.retry", { task: "t" }), { code: "in_doubt" });
  await store.call("step.resolve", { task: "t", step: "pay", happened: true });
  await store.call("task.retry", { task: "t" });
  await store.run("t", pay);
  assert.equal(calls, 1);
});

test("run ends the task by how the work ends", async (context) => {
  const store = await opened(context);
  assert.equal(await store.run("good", { title: "x" }, (task) => task.step("a", () => 1)), 1);
  await assert.rejects(store.run("good", () => 2), { code: "ended", name: "Ended" });
  await assert.rejects(store.run("bad", () => { throw new TypeError("no"); }), TypeError);
  assert.equal((await store.call("task.show", { task: "good" })).status, "completed");
  const bad = await store.call("task.show", { task: "bad" });
  assert.notEqual(bad.status, "running");
  const events = await store.call("events", { task: "bad" });
  assert.ok(JSON.stringify(events).includes("TypeError: no"));
});

test("a worker takes what it can do, and an error stops nobody", async (context) => {
  const store = await opened(context, {
    strategies: { parking: { decide: (failure) => ({ decision: "suspend", reason: `after ${failure.task.id ?? failure.task}` }) } },
  });
  for (const id of ["a", "b"]) await store.add(id, { needs: ["mail"], payload: { id } });
  await store.add("bad", { needs: ["mail"], strategy: "parking" });
  await store.add("other", { needs: ["cook"] });
  const seen = [];
  const options = { agent: "mailer", skills: ["mail"], atOnce: 2, untilEmpty: true };
  const worked = await store.worker(options, async (task) => {
    if (task.id === "bad") throw new Error("boom");
    seen.push((await task.step("send", () => task.payload)).id);
  });
  assert.deepEqual(seen.sort(), ["a", "b"]);
  assert.deepEqual(worked, { done: 2, blocked: 0, deferred: 0, failed: 1, lost: 0 });
  assert.equal((await store.call("task.show", { task: "bad" })).status, "suspended");
  assert.equal((await store.call("task.show", { task: "other" })).status, "created");
});

test("a task that the work ended itself is counted by how it ended", async (context) => {
  const store = await opened(context);
  const ends = {
    done: (task) => task.done(),
    failed: (task) => task.fail("no"),
    blocked: (task) => task.block("ask"),
    deferred: (task) => task.defer("10m"),
    lost: (task) => task.close(),
    thrown: async (task) => { await task.defer("10m"); throw new Error("after its end"); },
  };
  const hows = [];
  for (const id of Object.keys(ends)) {
    await store.add(id, { maxRetries: 0 });
    // One at a time: what was let go would be taken again.
    const stop = new AbortController();
    const onEnd = (ended, how) => (stop.abort(), hows.push(`${ended} ${how}`));
    await store.worker({ agent: "w", signal: stop.signal, onEnd }, (task) => ends[task.id](task));
    if (id === "lost") await store.call("task.cancel", { task: id, reason: "seen" });
  }
  assert.deepEqual(hows, ["done done", "failed failed", "blocked blocked", "deferred deferred", "lost lost", "thrown deferred"]);
});

test("when the store refuses the end of a task, the worker ends after the work of its other slots", async (context) => {
  const store = await opened(context);
  await store.add("good");
  await store.add("broken");
  let end;
  let begin;
  const mayEnd = new Promise((resolve) => (end = resolve));
  const begun = new Promise((resolve) => (begin = resolve));
  const hows = [];
  const options = { agent: "w", atOnce: 2, onEnd: (id, how) => hows.push(`${id} ${how}`) };
  const working = store.worker(options, async (task) => {
    if (task.id === "good") return begin(), mayEnd;
    await begun;
    task.fail = () => (setImmediate(end), Promise.reject(new Error("the disk is full")));
    throw new Error("boom");
  });
  await assert.rejects(working, { message: "the disk is full" });
  assert.deepEqual(hows, ["good done"]);
  await store.add("late");
  const taken = [];
  for (let at = 0; at < 2; at += 1) taken.push((await store.claim({ agent: "other", wait: "5s" }))?.id);
  assert.deepEqual(taken.sort(), ["broken", "late"], "no slot is left that takes them");
});

test("a claim that is aborted as it takes a task lets it go", async (context) => {
  const store = await opened(context);
  await store.add("t");
  const stop = new AbortController();
  const settle = store.calls.settle.bind(store.calls);
  // It has the task, and has not told so.
  store.calls.settle = (...given) => (stop.abort(), settle(...given));
  await assert.rejects(store.claim({ agent: "w", wait: "1h", signal: stop.signal }), { name: "AbortError" });
  store.calls.settle = settle;
  const again = await store.claim({ agent: "w", wait: "5s" });
  assert.equal(again?.id, "t");
});

test("a task whose loss is watched is let go by close, and one that was lost aborts the signal at once", async (context) => {
  const store = await opened(context);
  const first = await store.task("t");
  assert.equal(first.signal.aborted, false);
  first.close();
  assert.equal(first.ended, "released");
  const again = await store.claim({ agent: "w", wait: "5s" });
  assert.equal(again?.id, "t");
  const { signal } = again;
  await store.call("task.cancel", { task: "t", reason: "enough" });
  await assert.rejects(again.step("late", () => 1), Fenced);
  assert.equal(signal.aborted, true);
});

test("what cannot be ended any more is not kept", async (context) => {
  const store = await opened(context);
  const { held } = store.calls;
  const task = await store.task("t", { steps: ["a"] });
  await assert.rejects(task.done(), { code: "steps_left_open" });
  assert.equal(held.size, 1, "the work on it continues");
  await store.call("task.cancel", { task: "t", reason: "enough" });
  await assert.rejects(task.fail("late"), Fenced);
  assert.equal(held.size, 0);
  const turn = await store.sessions.begin("chat", { id: "c-1" });
  await store.sessions.end("chat", turn.generation);
  await store.sessions.begin("chat", { id: "c-1" });
  await assert.rejects(turn.end(), Fenced);
  assert.equal(held.size, 1, "the newer turn");
});

test("a closed store refuses later calls, ends waits, and lets open work end", async (context) => {
  const store = await opened(context);
  const task = await store.task("t");
  const turn = await store.sessions.begin("chat", { id: "c-1" });
  const claim = assert.rejects(store.claim({ agent: "w", wait: "1h" }), Conflict);
  const called = assert.rejects(store.call("task.claim", { agent: "w", wait: "1h" }), Conflict);
  await store.close();
  await Promise.all([claim, called]);
  const closed = { code: "conflict", message: "this store was closed: its use has ended" };
  await assert.rejects(store.task("u"), closed);
  await assert.rejects(store.claim({ agent: "w" }), closed);
  await assert.rejects(store.add("u"), closed);
  await assert.rejects(store.sessions.begin("chat", { id: "c-1" }), closed);
  await assert.rejects(store.records.get("a"), closed);
  assert.throws(() => store.home, closed);
  assert.equal(await task.step("a", () => 1), 1);
  await task.done();
  await turn.end();
  await store.close();
  const another = await opened(context);
  await another[Symbol.asyncDispose]();
  await assert.rejects(another.recover(), closed);
});

test("the functions of the module use one store until it is closed", async (context) => {
  const before = process.env.RELIGHT_HOME;
  context.after(() => (before === undefined ? delete process.env.RELIGHT_HOME : (process.env.RELIGHT_HOME = before)));
  process.env.RELIGHT_HOME = home(context);
  const { close, records, recover, usualStore } = relight;
  await sessions.touch("chat", "c-1");
  await records.put("a", 1);
  const store = await usualStore();
  assert.equal(await store.records.get("a"), 1);
  await close();
  await assert.rejects(store.recover(), Conflict);
  await recover();
  assert.notEqual(await usualStore(), store);
  assert.equal((await sessions.list()).items.length, 1);
  await close();
});

test("a worker that waits is woken by new work, and is stopped by its signal", async (context) => {
  const store = await opened(context);
  const stop = new AbortController();
  const done = new Promise((resolve) => {
    const work = store.worker({ agent: "w", signal: stop.signal, onEnd: resolve }, () => {});
    context.after(() => work);
  });
  await store.add("late");
  assert.equal(await done, "late");
  stop.abort();
});

test("turns of sessions begin, end by their generation and are found after a crash", async (context) => {
  const folder = home(context);
  const other = start("hold.mjs", ["telegram:42", "turn"], { RELIGHT_HOME: folder });
  await other.line("in the turn");
  const store = await open({ home: folder });
  other.child.kill("SIGKILL");
  await other.end();
  const recovered = await store.sessions.recover({ policy: "resume_pending" });
  assert.ok(JSON.stringify(recovered).includes("telegram:42"));
  assert.equal((await store.sessions.show("telegram:42")).state, "resume_pending");
  const turn = await store.sessions.begin("telegram:42", { id: "c-2", set: { model: "x" } });
  const newer = await store.sessions.begin("telegram:42", { id: "c-2" }).catch((error) => error);
  assert.ok(newer instanceof Refused || newer.generation > turn.generation);
  if (newer instanceof Refused) await turn.end();
  else {
    await assert.rejects(turn.end(), Fenced);
    await newer.end();
  }
  assert.equal((await store.sessions.show("telegram:42")).state, "idle");
  assert.equal((await store.sessions.list()).items.length, 1);
});

test("sessions have every verb of the command line", async (context) => {
  const { sessions } = await opened(context);
  const turn = await sessions.begin("chat", { id: "c-1", set: { model: "x" } });
  assert.deepEqual([turn.key, turn.resumed, turn.context, turn.begun.session_id], ["chat", false, { model: "x" }, "c-1"]);
  const marks = await sessions.export();
  assert.deepEqual(Object.keys(marks), ["chat"]);
  assert.equal((await sessions.end("chat", turn.generation)).state, "idle");
  await assert.rejects(sessions.end("chat", turn.generation - 1), Fenced);
  assert.deepEqual((await sessions.importMarks({ old: marks.chat })).imported, ["old"]);
  const options = { policy: "resume_pending", window: "0s", freshness: "1h" };
  const planned = await sessions.recover({ ...options, dryRun: true });
  assert.deepEqual([planned.dry_run, planned.items.length], [true, 1]);
  assert.equal((await sessions.show("old")).state, "active");
  await sessions.recover(options);
  const recovered = await sessions.show("old");
  assert.equal(recovered.state, "resume_pending");
  assert.equal(Date.parse(recovered.fresh_until) - Date.parse(recovered.discovered_at), 3_600_000);
  await sessions.suspend("old", "asked for it");
  const suspended = await sessions.show("old");
  assert.deepEqual([suspended.state, suspended.reason], ["suspended", "asked for it"]);
  await sessions.touch("other", "c-2");
  assert.deepEqual((await sessions.list()).items.map((one) => one.key), ["chat", "old", "other"]);
});

test("records are listed by their names, replaced under a condition, and removed", async (context) => {
  const { records } = await opened(context);
  for (const name of ["a/1", "a/2", "a/10", "b/1"]) assert.equal(await records.put(name, { name }), true);
  assert.equal(await records.put("a/1", 1, { isNew: true }), false);
  assert.equal(await records.put("a/1", 1, { expected: { name: "other" } }), false);
  assert.equal(await records.put("a/1", { base64: "AKIA" }, { expected: { name: "a/1" } }), true);
  assert.deepEqual(await records.get("a/1"), { base64: "AKIA" });
  assert.equal(await records.get("a/9"), null);
  const first = await records.list("a/", { descending: true, limit: 2 });
  assert.deepEqual([first.items.map((item) => item.record), first.next], [["a/2", "a/10"], "a/10"]);
  const rest = await records.list("a/", { descending: true, limit: 2, after: first.next });
  assert.deepEqual([rest.items.map((item) => item.record), rest.next], [["a/1"], null]);
  const all = [];
  for await (const item of records.all("a/", { limit: 1 })) all.push(item.record);
  assert.deepEqual(all, ["a/1", "a/10", "a/2"]);
  assert.equal(await records.remove({ record: "a/1" }), 1);
  assert.equal(await records.remove({ under: "a/" }), 2);
  assert.deepEqual((await records.list("")).items.map((item) => item.record), ["b/1"]);
});

test("ESM and CommonJS are one library", () => {
  const common = createRequire(import.meta.url)("relight");
  assert.equal(common.Refused, Refused);
  assert.equal(relight.open, open);
  assert.equal(common.open, open);
  assert.equal(common.sessions, sessions);
  assert.equal(relight.sessions, sessions);
});
