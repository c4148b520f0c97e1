#!/usr/bin/env node
// A stand-in for Claude Code: answers the SDK's control requests, calls the hooks that STAND_IN names one after the
// other, and gives what they want to tell the model as its result.
import { createInterface } from "node:readline";

const events = (process.env.STAND_IN ?? "").split(" ").filter(Boolean);
const told = [];
let hooks = {};
let number = 0;

const write = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

function next() {
  const event = events.shift();
  if (event === undefined) {
    write({
      type: "result", subtype: "success", is_error: false, result: told.join("\n"), session_id: "conversation-1",
      duration_ms: 1, duration_api_ms: 1, num_turns: 1, total_cost_usd: 0, usage: {}, modelUsage: {},
      permission_denials: [], uuid: "00000000-0000-0000-0000-000000000000",
    });
    return;
  }
  if (event === "kill") return process.kill(process.ppid, "SIGKILL");
  const [name, tool, call] = event.split(":");
  const input = {
    session_id: "conversation-1", transcript_path: "/dev/null", cwd: process.cwd(), hook_event_name: name,
    source: "startup", prompt: "deploy it", tool_name: tool, tool_use_id: call && `toolu_${call}`,
    tool_input: tool && { target: call }, tool_response: name === "PostToolUse" ? { ok: true } : undefined,
  };
  const id = hooks[name]?.[0]?.hookCallbackIds[0];
  if (id === undefined) throw new Error(`nobody asked for ${name}`);
  const request = { subtype: "hook_callback", callback_id: id, input, tool_use_id: input.tool_use_id };
  write({ type: "control_request", request_id: `hook-${(number += 1)}`, request });
}

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  if (message.type === "control_request") {
    if (message.request.subtype === "initialize") hooks = message.request.hooks ?? {};
    const response = { commands: [], models: [], account: {}, output_style: "default", available_output_styles: [] };
    write({ type: "control_response", response: { subtype: "success", request_id: message.request_id, response } });
  } else if (message.type === "control_response") {
    const context = message.response.response?.hookSpecificOutput?.additionalContext;
    if (context) told.push(context);
    next();
  } else if (message.type === "user") next();
}
