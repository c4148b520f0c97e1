// The real Claude Agent SDK with a stand-in for its program, which speaks the SDK's protocol; no network.
import assert from "node:assert/strict";
import test from "node:test";

import { open } from "relight";

import { home, start } from "./support.mjs";

test("tool calls are steps, and a conversation that was cut off is told what is in doubt", async (context) => {
  const folder = home(context);
  const converse = (events) => start("conversation.mjs", [], { RELIGHT_HOME: folder, STAND_IN: events }).end();
  const calls = "PreToolUse:Deploy:1 PostToolUse:Deploy:1 PreToolUse:Read:2 PostToolUse:Read:2 PreToolUse:Deploy:3";
  const killed = await converse(`SessionStart UserPromptSubmit ${calls} kill`);
  assert.deepEqual([killed.signal, killed.printed], ["SIGKILL", ""]);
  const store = await open({ home: folder });
  const tasks = await store.call("task.list", {});
  assert.deepEqual(tasks.items.map((task) => task.id), ["claude/conversation-1"]);
  const steps = await store.call("step.list", { task: "claude/conversation-1" });
  const states = steps.items.map((step) => `${step.name.split(":")[0]} ${step.rule} ${step.state}`);
  assert.deepEqual(states, ["Deploy once done", "Read repeatable done", "Deploy once begun"]);
  // The real program reports no start to hooks of the SDK: the first prompt is answered.
  const told = await converse("UserPromptSubmit");
  assert.match(told.printed, /Relight: This conversation was cut off.*toolu_3/s);
});
