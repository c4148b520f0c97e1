// One conversation with the stand-in; prints its result, and what went wrong in the hooks.
import { fileURLToPath } from "node:url";

import { query } from "@anthropic-ai/claude-agent-sdk";
import { relightHooks } from "relight/claude";

const hooks = relightHooks({ repeat: { Deploy: "once" }, onError: (error) => console.log("error", error) });
const program = fileURLToPath(new URL("claude-program.mjs", import.meta.url));
for await (const message of query({ prompt: "deploy it", options: { pathToClaudeCodeExecutable: program, hooks } })) {
  if (message.type === "result") process.stdout.write(message.result);
}
