// Holds a task, a step or a turn until it is killed: hold.mjs ID [once|verify|turn]
import * as relight from "relight";

const [id, what] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${line}\n`);
const forever = () => new Promise(() => setInterval(() => {}, 1000));

if (what === "turn") {
  const store = await relight.open();
  await store.sessions.begin(id, { id: "c-1" });
  // Nobody refers to the turn any more; that does not end it.
  globalThis.gc();
  say("in the turn");
  await forever();
}
const task = await relight.task(id);
say("held");
if (what) {
  await task.step("act", { repeat: what, verify: () => undefined }, () => {
    say("in the step");
    return forever();
  });
}
await forever();
