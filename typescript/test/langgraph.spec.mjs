// LangGraph's own tests of a checkpointer, on ours; and a graph that is cut off at each node.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { specTest } from "@langchain/langgraph-checkpoint-validation";
import { open } from "relight";
import { RelightSaver } from "relight/langgraph";
import { expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "relight-langgraph-"));
let number = 0;
const fresh = async () => open({ home: join(folder, String((number += 1))) });

specTest({
  checkpointerName: "RelightSaver",
  createCheckpointer: async () => new RelightSaver(await open({ store: "memory:", home: folder })),
  afterAll: () => rmSync(folder, { recursive: true, force: true }),
});

test("a filter finds metadata whose values are objects", async () => {
  const saver = new RelightSaver(await fresh());
  const checkpoint = { v: 4, id: "1", ts: "", channel_values: {}, channel_versions: {}, versions_seen: {} };
  const config = { configurable: { thread_id: "t", checkpoint_ns: "" } };
  await saver.put(config, checkpoint, { source: "loop", step: 1, user: { id: 7, roles: ["a"] } }, {});
  const found = [];
  for await (const tuple of saver.list(config, { filter: { user: { id: 7, roles: ["a"] } } })) found.push(tuple);
  for await (const tuple of saver.list(config, { filter: { user: { id: 7, roles: ["b"] } } })) found.push(tuple);
  expect(found.map((tuple) => tuple.config.configurable.checkpoint_id)).toEqual(["1"]);
});

test("a graph that is cut off continues after the last finished node", async () => {
  const store = await fresh();
  const ran = [];
  const graph = (crashAt) => {
    const node = (name) => () => {
      ran.push(name);
      if (name === crashAt) throw new Error(`cut off in ${name}`);
      return { done: [name] };
    };
    const State = Annotation.Root({ done: Annotation({ reducer: (a, b) => a.concat(b), default: () => [] }) });
    return new StateGraph(State)
      .addNode("a", node("a"))
      .addNode("b", node("b"))
      .addNode("c", node("c"))
      .addEdge(START, "a")
      .addEdge("a", "b")
      .addEdge("b", "c")
      .addEdge("c", END)
      .compile({ checkpointer: new RelightSaver(store) });
  };
  const config = { configurable: { thread_id: "t/1" }, durability: "sync" };
  await expect(graph("b").invoke({ done: [] }, config)).rejects.toThrow("cut off in b");
  await expect(graph("c").invoke(null, config)).rejects.toThrow("cut off in c");
  const state = await graph(undefined).invoke(null, config);
  expect(state.done).toEqual(["a", "b", "c"]);
  expect(ran).toEqual(["a", "b", "b", "c", "c"]);
});
