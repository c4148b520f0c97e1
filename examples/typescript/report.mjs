// A task with three steps: node report.mjs [--crash]. Kill it at any moment and run it again.
import * as relight from "relight";

await relight.run("report-7", { title: "Weekly report" }, async (task) => {
  if (task.resumed) console.log("resuming; done so far:", task.record.done_steps.join(" "));
  const text = await task.step("fetch", () => {
    console.log("fetching");
    return "one two three";
  });
  const words = await task.step("count", () => text.split(" ").length);
  if (process.argv.includes("--crash")) process.kill(process.pid, "SIGKILL");
  await task.step("publish", { repeat: "once" }, ({ idempotencyKey }) => {
    console.log(`publishing ${words} words`, idempotencyKey ? "with a key" : "");
  });
});
