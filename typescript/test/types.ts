// Checked by tsc --strict, not run.
import relight, { Held, open, Refused, sessions } from "relight";
import type { Codec, Json, Task } from "relight";
import { durableTools } from "relight/ai";
import { relightHooks } from "relight/claude";
import { RelightSaver } from "relight/langgraph";

const day: Codec<Date> = { encode: (date) => date.getTime(), decode: (json) => new Date(json as number) };

export async function work(): Promise<void> {
  await using task: Task = await relight.task("report-7", { title: "Weekly report", maxRetries: 2 });
  const text: string = await task.step("fetch", () => "text");
  const words: number = await task.step("count", { repeat: "once", input: { text } }, async (run) => {
    return text.length + run.tries;
  });
  const when: Date = await task.step("when", { codec: day }, () => new Date());
  // @ts-expect-error: there is no such rule
  await task.step("count", { repeat: "twice" }, () => 1);
  // @ts-expect-error: the step gives a number
  const wrong: string = await task.step("count", () => 1);
  const payload: Json = task.payload;
  try {
    await task.done();
  } catch (error) {
    if (error instanceof Held) console.log(error.code, error.hint);
    if (error instanceof Refused) console.log(error.exit satisfies number);
  }
  const store = await open({
    store: "memory:",
    strategies: { mine: { decide: () => "resume" }, other: () => ({ decision: "defer", until: "5m" }) },
  });
  const { done } = await store.worker({ agent: "a", skills: ["b"], atOnce: 2 }, async (one) => one.set({ a: "b" }));
  await using turn = await store.sessions.begin("chat", { id: "1" });
  console.log(words, when, wrong, payload, done, turn.generation, new RelightSaver(store), relightHooks({ store }));
  console.log(durableTools(task, {}), turn.begun.session_id);
  const ended: "done" | "failed" | "blocked" | "deferred" | "released" | undefined = task.ended;
  await sessions.suspend("chat", ended);
  await using another = await open();
  await another.sessions.recover({ freshness: "1h", dryRun: true });
  await relight.close();
}
