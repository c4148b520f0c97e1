// The real AI SDK with its own mock model; no network.
import assert from "node:assert/strict";
import test from "node:test";

import { generateText, jsonSchema, stepCountIs, streamText, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV3, simulateReadableStream } from "ai/test";
import { durableModel, durableTools } from "relight/ai";

import { opened } from "./support.mjs";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const answers = [
  { content: [{ type: "tool-call", toolCallId: "call-1", toolName: "send", input: '{"to":"a"}' }], finishReason: { unified: "tool-calls", raw: "tool" } },
  { content: [{ type: "text", text: "sent" }], finishReason: { unified: "stop", raw: "stop" } },
];

function model(counts) {
  return new MockLanguageModelV3({
    doGenerate: async () => {
      const answer = answers[counts.model];
      counts.model += 1;
      return { ...answer, usage, warnings: [], response: { id: "r", timestamp: new Date(0), modelId: "m" } };
    },
  });
}

async function converse(task, counts) {
  const tools = durableTools(task, {
    send: tool({
      inputSchema: jsonSchema({ type: "object", properties: { to: { type: "string" } } }),
      execute: async ({ to }, { idempotencyKey }) => {
        counts.sent += 1;
        assert.ok(idempotencyKey);
        return { to };
      },
    }),
  }, { repeat: { send: "once" } });
  const wrapped = wrapLanguageModel({ model: model(counts), middleware: durableModel(task) });
  return generateText({ model: wrapped, tools, prompt: "send it", maxRetries: 0, stopWhen: stepCountIs(3) });
}

test("after a crash neither the model nor a tool is called again", async (context) => {
  const store = await opened(context);
  const counts = { model: 0, sent: 0 };
  const first = await store.task("t");
  await converse(first, counts);
  assert.deepEqual(counts, { model: 2, sent: 1 });
  first.close();
  const again = await store.task("t");
  const { text, steps } = await converse(again, counts);
  assert.equal(text, "sent");
  assert.deepEqual(steps[0].toolResults[0].output, { to: "a" });
  assert.deepEqual(counts, { model: 2, sent: 1 });
  assert.deepEqual((await store.call("step.list", { task: "t" })).done_steps.sort(), ["model", "model#2", "send call-1"].sort());
});

test("a tool gives the same value in a replay, whatever its keys and its kinds are", async (context) => {
  const store = await opened(context);
  const value = {
    users: [{ $date: "mine" }, { $bytes: 1, $error: "mine" }, { $$date: { $map: [] } }, { $ref: "#/a" }],
    date: new Date(5),
    bytes: new Uint8Array([1, 2]),
    url: new URL("https://example.com/a?b=c"),
    map: new Map([["at", new Date(6)], [{ $set: 1 }, new Set([1n, Number.NaN])]]),
  };
  const giving = (task) => durableTools(task, {
    look: tool({ inputSchema: jsonSchema({ type: "object" }), execute: () => value }),
  }).look.execute({}, { toolCallId: "call-1", messages: [] });
  const first = await store.task("t");
  assert.deepEqual(await giving(first), value);
  first.close();
  const again = await store.task("t");
  assert.deepEqual(await giving(again), value);
  again.close();
  const pending = (task) => durableTools(task, {
    look: tool({ inputSchema: jsonSchema({ type: "object" }), execute: () => ({ later: Promise.resolve(1) }) }),
  }).look.execute({}, { toolCallId: "call-2", messages: [] });
  await assert.rejects(pending(await store.task("t")), { code: "invalid" });
});

test("a stream is passed on as it comes and replayed after a crash", async (context) => {
  const store = await opened(context);
  let asked = 0;
  const streaming = () => new MockLanguageModelV3({
    doStream: async () => {
      asked += 1;
      return {
        stream: simulateReadableStream({
          chunks: [
            { type: "stream-start", warnings: [] },
            { type: "text-start", id: "1" },
            { type: "text-delta", id: "1", delta: "one " },
            { type: "text-delta", id: "1", delta: "two" },
            { type: "text-end", id: "1" },
            { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage },
          ],
        }),
      };
    },
  });
  for (let round = 0; round < 2; round += 1) {
    const task = await store.task("t");
    const model = wrapLanguageModel({ model: streaming(), middleware: durableModel(task) });
    const parts = [];
    for await (const part of streamText({ model, prompt: "count" }).textStream) parts.push(part);
    assert.deepEqual(parts, ["one ", "two"]);
    task.close();
  }
  assert.equal(asked, 1);
});
