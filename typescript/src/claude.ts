// Types only: the Claude Agent SDK is not loaded by this file.
import type { HookCallback, HookCallbackMatcher, HookEvent, HookInput, HookJSONOutput } from "@anthropic-ai/claude-agent-sdk";

import { usualStore } from "./index.js";
import type { Relight, Repeat } from "./index.js";

/** How tool calls are recorded. */
export interface HookOptions {
  /** Which store; the one that the command line uses when none. */
  store?: Relight;
  /** Repeat rules by the name of the tool. */
  repeat?: Record<string, Repeat>;
  /** Lists of the other tools, with the keys of `[hooks]` in `relight.toml`. That file is not read: a list that is not
   * given is the default one. */
  rules?: { ignored?: string[]; verify?: string[]; repeatable?: string[]; once?: string[] };
  /** Is told what went wrong here. The agent goes on whatever it is. */
  onError?: (error: unknown) => void;
}

const EVENTS = {
  SessionStart: "session-start",
  UserPromptSubmit: "prompt",
  PreToolUse: "before-tool",
  PostToolUse: "after-tool",
  PostToolUseFailure: "after-tool",
  Stop: "stop",
  StopFailure: "failure",
  SessionEnd: "session-end",
} as const;

/**
 * Hooks that record every tool call as a step, with the conversation as its task, as `relight setup hooks` does for
 * Claude Code. A conversation that was cut off is told at its start what was in doubt.
 *
 * They never get in the agent's way: what goes wrong is told to `onError`.
 */
export function relightHooks(options: HookOptions = {}): Partial<Record<HookEvent, HookCallbackMatcher[]>> {
  const store = () => (options.store ? Promise.resolve(options.store) : usualStore());
  const told = new Set<string>();
  const observe = async (event: string, input: HookInput): Promise<string | null> => {
    const tool = "tool_name" in input ? input.tool_name : undefined;
    const rule = tool === undefined ? undefined : options.repeat?.[tool];
    const given = { event, program: "claude", payload: input, rule, rules: options.rules };
    return (await (await store()).call<{ context: string | null }>("hook.observe", given)).context;
  };
  const hook: HookCallback = async (input) => {
    let context: string | null = null;
    try {
      const name = input.hook_event_name as keyof typeof EVENTS;
      // Claude Code reports no SessionStart to hooks of the SDK: the first prompt stands for it.
      if (name === "SessionStart" || (name === "UserPromptSubmit" && !told.has(input.session_id))) {
        context = await observe("session-start", input);
        remember(told, input.session_id);
      }
      if (name !== "SessionStart") await observe(EVENTS[name], input);
    } catch (error) {
      options.onError?.(error);
    }
    return context === null ? {} : said(input.hook_event_name, context);
  };
  const entries = Object.keys(EVENTS).map((name) => [name, [{ hooks: [hook] }]]);
  return Object.fromEntries(entries) as Partial<Record<HookEvent, HookCallbackMatcher[]>>;
}

/** Most conversations that are known to have been told; one that is dropped is told once more. */
const TOLD_MAX = 1_000;

function remember(told: Set<string>, session: string): void {
  told.add(session);
  const [oldest] = told;
  if (told.size > TOLD_MAX && oldest !== undefined) told.delete(oldest);
}

function said(event: string, text: string): HookJSONOutput {
  return { hookSpecificOutput: { hookEventName: event, additionalContext: text } } as HookJSONOutput;
}
