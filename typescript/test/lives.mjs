// Programs that must end by themselves: lives.mjs idle|exit|threads|closed
import { once } from "node:events";
import { writeSync } from "node:fs";
import { isMainThread, Worker, workerData } from "node:worker_threads";

import * as relight from "relight";

const what = isMainThread ? process.argv[2] : workerData;
const store = await relight.open();

if (what === "idle") {
  const task = await store.task("t");
  await task.step("a", () => 1);
  task.signal;
  process.stdout.write("idle\n");
} else if (what === "exit") {
  process.stdout.write("exit\n");
  void store.claim({ agent: "w", wait: "1h" });
  setTimeout(() => process.exit(3), 50);
} else if (what === "threads") {
  const workers = [0, 1, 2, 3].map((number) => new Worker(new URL(import.meta.url), { workerData: `thread ${number}` }));
  const codes = await Promise.all(workers.map((worker) => once(worker, "exit")));
  const tasks = await store.call("task.list", {});
  if (codes.some(([code]) => code !== 0)) process.exitCode = 1;
  process.stdout.write(`threads ${tasks.items.length}\n`);
} else if (what === "closed") {
  const claim = store.claim({ agent: "w", wait: "1h" }).catch((error) => error.code);
  await store.close();
  process.stdout.write(`closed ${await claim}\n`);
} else {
  try {
    // A wait is still open when the thread ends.
    void store.claim({ agent: "w", skills: ["none"], wait: "1h" }).catch(() => {});
    const task = await store.task(what.replace(" ", "-"));
    for (let number = 0; number < 5; number += 1) await task.step("n", () => number);
    await task.done();
  } catch (error) {
    // Not through the stream of the thread, which ends with it.
    writeSync(2, `${what}: ${error.code ?? ""} ${error.stack}\n`);
    process.exit(1);
  }
  process.exit(0);
}
