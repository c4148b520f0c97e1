// Forty steps with an effect each: steps.mjs TASK FILE
//
// The file has what a witness outside of the store would know: `ack N` once the step was acknowledged, `again N` when
// it was run after that.
import { appendFileSync, readFileSync } from "node:fs";

import * as relight from "relight";

const [id, effects] = process.argv.slice(2);
const acknowledged = new Set(readFileSync(effects, "utf8").split("\n"));
process.stdout.write("started\n");
// Killed after its end, there is nothing left to do.
const isOver = await relight.call("task.show", { task: id }).then((task) => task.status === "completed", () => false);
if (isOver) process.exit(0);
await relight.run(id, async (task) => {
  for (let number = 0; number < 40; number += 1) {
    const value = await task.step(`step-${number}`, async () => {
      if (acknowledged.has(`ack ${number}`)) appendFileSync(effects, `again ${number}\n`);
      await new Promise((resolve) => setTimeout(resolve, 3));
      return { number, text: "x".repeat(1024) };
    });
    if (value.number !== number || value.text.length !== 1024) throw new Error(`step ${number} gave ${value.number}`);
    if (!acknowledged.has(`ack ${number}`)) appendFileSync(effects, `ack ${number}\n`);
  }
});
