import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import test from "node:test";

import { open } from "relight";

import { home, start } from "./support.mjs";

/** Longer than any program here needs, and shorter than the tests' own limit. */
const LIMIT_MS = 60_000;

async function ends(program) {
  const timer = setTimeout(() => program.child.kill("SIGKILL"), LIMIT_MS);
  const ended = await program.end();
  clearTimeout(timer);
  return ended;
}

test("an open store keeps no process alive", async (context) => {
  const environment = { RELIGHT_HOME: home(context) };
  assert.deepEqual(await ends(start("lives.mjs", ["idle"], environment)), { code: 0, signal: null, printed: "idle\n" });
});

test("process.exit does not hang while a call waits", async (context) => {
  const environment = { RELIGHT_HOME: home(context) };
  assert.deepEqual(await ends(start("lives.mjs", ["exit"], environment)), { code: 3, signal: null, printed: "exit\n" });
});

test("a store that is closed while a claim waits keeps no process alive", async (context) => {
  const environment = { RELIGHT_HOME: home(context) };
  const ended = await ends(start("lives.mjs", ["closed"], environment));
  assert.deepEqual(ended, { code: 0, signal: null, printed: "closed conflict\n" });
});

test("the command passes on signals that it gets alone", async (context) => {
  const program = spawn(process.execPath, [standIn(context)], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  const got = await signalled(context, program, [
    ["started", (pid) => process.kill(pid, "SIGINT")],
    ["SIGINT", (pid) => process.kill(pid, "SIGHUP")],
    ["SIGHUP", (pid) => process.kill(pid, "SIGTERM")],
  ]);
  assert.deepEqual(got, [["SIGINT", "SIGHUP", "SIGTERM"], 5]);
});

const skip = spawnSync("script", ["--version"]).error ? "SKIPPED: there is no program script, which makes a terminal" : false;
test("Ctrl-C in a terminal reaches the binary once", { skip }, async (context) => {
  // A shell that stays between them would end by the signal itself.
  const command = `exec ${process.execPath} ${standIn(context)}`;
  const program = spawn("script", ["-qec", command, "/dev/null"], { stdio: ["pipe", "pipe", "inherit"] });
  const got = await signalled(context, program, [
    ["started", () => program.stdin.write("\x03")],
    ["SIGINT", (pid) => process.kill(pid, "SIGTERM")],
  ]);
  assert.deepEqual(got, [["SIGINT", "SIGTERM"], 5]);
});

/** The command with a binary that tells which signals it gets, and ends with the code 5 on SIGTERM. */
function standIn(context) {
  const folder = home(context);
  const native = join(folder, "native", `${process.platform}-${process.arch}`);
  const command = join(folder, "bin", "relight.js");
  mkdirSync(native, { recursive: true });
  mkdirSync(dirname(command));
  copyFileSync(join(dirname(createRequire(import.meta.url).resolve("relight/package.json")), "bin", "relight.js"), command);
  const text = `#!/usr/bin/env node
    for (const signal of ["SIGINT", "SIGHUP", "SIGTERM"]) process.on(signal, () => {
      process.stdout.write(signal + "\\n");
      if (signal === "SIGTERM") process.exit(5);
    });
    setInterval(() => {}, 1000);
    process.stdout.write("started " + process.ppid + "\\n");
  `;
  writeFileSync(join(native, "relight"), text, { mode: 0o755 });
  return command;
}

/** The signals that the binary got, and how it ended. Each is sent to the command once a text was printed. */
async function signalled(context, program, sends) {
  let printed = "";
  program.stdout.setEncoding("utf8").on("data", (text) => (printed += text.replaceAll(/\^C|\r/g, "")));
  const ended = once(program, "close");
  const timer = setTimeout(() => program.kill("SIGKILL"), LIMIT_MS);
  context.after(() => (clearTimeout(timer), program.kill("SIGKILL")));
  for (const [after, send] of sends) {
    while (!printed.includes(after)) {
      await Promise.race([once(program.stdout, "data"), ended.then(() => assert.fail(`it ended: ${printed}`))]);
    }
    send(Number(/started (\d+)/.exec(printed)[1]));
  }
  const [code] = await ended;
  return [printed.trim().split("\n").slice(1), code];
}

test("worker threads have handles of their own, and the last one ends without harm", async (context) => {
  const environment = { RELIGHT_HOME: home(context) };
  const ended = await ends(start("lives.mjs", ["threads"], environment));
  assert.deepEqual(ended, { code: 0, signal: null, printed: "threads 4\n" });
});

test("a program that is killed again and again repeats no finished step and loses none", async (context) => {
  const folder = home(context);
  const effects = join(folder, "effects");
  writeFileSync(effects, "");
  const environment = { RELIGHT_HOME: folder };
  let kills = 0;
  let delay = 40;
  for (;;) {
    const program = start("steps.mjs", ["t", effects], environment);
    // The moments move on, so that each part of a run is hit.
    await program.line("started");
    const timer = setTimeout(() => program.child.kill("SIGKILL"), delay);
    const { code, signal } = await program.end();
    clearTimeout(timer);
    if (code === 0) break;
    assert.equal(signal, "SIGKILL");
    kills += 1;
    delay = 40 + ((delay * 7) % 90) + (kills > 20 ? 2_000 : 0);
    assert.ok(kills < 60, "it goes on with each run");
  }
  const store = await open({ home: folder });
  const { done_steps: done } = await store.call("step.list", { task: "t" });
  assert.equal(done.length, 40);
  const lines = readFileSync(effects, "utf8").trim().split("\n");
  assert.deepEqual(lines.filter((line) => line.startsWith("again")), []);
  assert.equal(lines.length, 40);
  assert.ok(kills > 0, "it was killed");
  context.diagnostic(`${kills} kills`);
});
