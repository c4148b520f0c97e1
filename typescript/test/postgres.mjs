// What postgres.test.mjs kills, freezes and runs side by side: postgres.mjs holder|worker|frozen|gateway [LEASE]
import { once } from "node:events";

import { Fenced, open } from "relight";

const [what, lease] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${line}\n`);
const forever = () => new Promise(() => setInterval(() => {}, 1000));
const told = () => once(process.stdin, "data");
const store = await open();
const claim = () => store.claim({ agent: "first", lease, wait: "60s" });

if (what === "holder") {
  const task = await claim();
  for (const name of ["a", "b"]) say(await task.step(name, () => name));
  await task.step("c", () => (say("in c"), forever()));
} else if (what === "worker") {
  let taken = 0;
  await store.worker({ agent: "worker", untilEmpty: true }, async (task) => {
    taken += 1;
    await task.step("take", () => say(task.id) && null);
    if (taken === 1) await told();
  });
  process.stdin.destroy();
} else if (what === "frozen") {
  const task = await claim();
  await task.step("a", () => 1);
  say("held");
  await told();
  for (const act of [() => task.step("b", () => "first"), () => task.done()]) {
    await act().then(say, (error) => say(error instanceof Fenced ? error.exit : error));
  }
  process.stdin.destroy();
} else if (what === "gateway") {
  await store.sessions.begin("dm:42", { id: "conversation-7", lease });
  say("begun");
  await forever();
}
