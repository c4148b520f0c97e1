// Durable steps per second of the package: steps.mjs PACKAGE FOLDER WHAT MILLISECONDS PROSE, as steps.py.
const [, folder, what, milliseconds, prose] = process.argv.slice(2);
const begun = performance.now();
const relight = await import("relight");

const INTERRUPTED = 1_000;
const seconds = () => (performance.now() - begun) / 1000;
const ids = Array.from({ length: INTERRUPTED }, (_, number) => `t${number}`);

/** Says the figure and ends at once: what is held stays held by a process that is gone. */
function say(figure) {
  process.stdout.write(`${figure}\n`, () => process.kill(process.pid, "SIGKILL"));
}

async function steps(store, atOnce) {
  const from = performance.now();
  const until = from + Number(milliseconds);
  const one = async (_, number) => {
    const task = await store.task(`t${number}-${Date.now()}-${process.pid}`);
    let count = 0;
    for (; performance.now() < until; count += 1) await task.step("s", () => prose);
    await task.done();
    return count;
  };
  const counts = await Promise.all(Array.from({ length: atOnce }, one));
  return counts.reduce((sum, count) => sum + count, 0) / ((performance.now() - from) / 1000);
}

if (what === "import") {
  say(seconds() * 1000);
} else {
  const store = await relight.open({ store: `sqlite:${folder}/relight.db` });
  if (what.startsWith("prepare-")) {
    const tasks = await Promise.all(ids.map((id) => store.task(id)));
    await Promise.all(tasks.map((task) => task.step("s", () => prose)));
    say(tasks.length);
  } else if (what.startsWith("resume-")) {
    const tasks = await Promise.all(ids.map((id) => store.task(id)));
    const values = await Promise.all(tasks.map((task) => task.step("s", () => Promise.reject(new Error("it was recorded")))));
    if (values.some((value) => value !== prose)) throw new Error("another value");
    say(seconds());
  } else {
    say(await steps(store, Number(what)));
  }
}
