// Types only: the AI SDK is not loaded by this file.
import type { LanguageModelMiddleware, ToolExecutionOptions, ToolSet } from "ai";

import type { Codec, Repeat, StepRun, Task } from "./index.js";

type Generated = Awaited<ReturnType<NonNullable<LanguageModelMiddleware["wrapGenerate"]>>>;
type Streamed = Awaited<ReturnType<NonNullable<LanguageModelMiddleware["wrapStream"]>>>;
type Part = Streamed["stream"] extends ReadableStream<infer T> ? T : never;

/** How calls of tools are recorded. */
export interface ToolOptions {
  /** The repeat rule of all tools, or by the name of the tool; `keyed` when none. */
  repeat?: Repeat | Record<string, Repeat>;
}

/**
 * A middleware that makes every call of the model a step of the task: after a crash the recorded answer is
 * given, and the model is not asked again.
 */
export function durableModel(task: Task, step = "model"): LanguageModelMiddleware {
  return {
    specificationVersion: "v3",
    wrapGenerate: ({ doGenerate }) => task.step<Generated>(step, { codec: codec<Generated>() }, async () => doGenerate()),
    wrapStream: ({ doStream }) => stream(task, step, async () => doStream()),
  };
}

/**
 * The same tools, with every call a step of the task: after a crash a finished call gives its recorded result, and
 * the tool is not run again. `execute` gets the idempotency key among its options.
 */
export function durableTools<T extends ToolSet>(task: Task, tools: T, options: ToolOptions = {}): T {
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    const { execute } = tool;
    if (typeof execute !== "function") return [name, tool];
    const repeat = typeof options.repeat === "object" ? options.repeat[name] : options.repeat;
    const durable = (input: unknown, about: ToolExecutionOptions): Promise<unknown> =>
      task.step(`${name} ${about.toolCallId}`, { ...(repeat ? { repeat } : {}), input, codec: codec() }, async (run) => {
        return last(await (execute as Execute)(input, withRun(about, run)));
      });
    return [name, { ...tool, execute: durable }];
  });
  return Object.fromEntries(wrapped) as T;
}

type Execute = (input: unknown, options: ToolExecutionOptions) => unknown;

function withRun(about: ToolExecutionOptions, run: StepRun): ToolExecutionOptions & StepRun {
  return { ...about, tries: run.tries, inDoubt: run.inDoubt, idempotencyKey: run.idempotencyKey };
}

/** A tool may give what it has so far, again and again; what it gives last counts. */
async function last(result: unknown): Promise<unknown> {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result)) return result;
  let newest: unknown;
  for await (const value of result as AsyncIterable<unknown>) newest = value;
  return newest;
}

/** Passes the parts on as they come; the stream ends when all of them are on disk. */
function stream(task: Task, step: string, start: () => Promise<Streamed>): Promise<Streamed> {
  return new Promise((resolve, reject) => {
    const recorded = task.step<Part[]>(step, { codec: codec<Part[]>() }, async () => {
      const live = await start();
      return new Promise<Part[]>((finish, fail) => {
        resolve({ ...live, stream: passedOn(live.stream, finish, fail, () => recorded) });
      });
    });
    recorded.then((parts) => resolve({ stream: replayed(parts) }), reject);
  });
}

function passedOn(
  source: ReadableStream<Part>,
  finish: (parts: Part[]) => void,
  fail: (error: unknown) => void,
  recorded: () => Promise<unknown>,
): ReadableStream<Part> {
  const reader = source.getReader();
  const parts: Part[] = [];
  return new ReadableStream<Part>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (!done) {
          if (value.type === "error") fail(value.error);
          parts.push(value);
          return controller.enqueue(value);
        }
        finish(parts);
        await recorded();
        controller.close();
      } catch (error) {
        fail(error);
        controller.error(error);
      }
    },
    async cancel(reason) {
      fail(reason ?? new Error("the stream was cancelled"));
      await reader.cancel(reason);
    },
  });
}

function replayed(parts: Part[]): ReadableStream<Part> {
  return new ReadableStream<Part>({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

/**
 * Models and tools give values that are not JSON by themselves. They are recorded as an object with one key, such as
 * `{"$date": …}`. A key of the user's own that looks like it gets one more `$`.
 */
function codec<T>(): Codec<T> {
  return { encode: encoded, decode: (json) => decoded(json) as T };
}

const DECODERS: Record<string, (json: never) => unknown> = {
  $date: (text: string | null) => new Date(text ?? Number.NaN),
  $bytes: (base64: string) => new Uint8Array(Buffer.from(base64, "base64")),
  $error: (message: string) => new Error(message),
  $url: (text: string) => new URL(text),
  $map: (entries: unknown[]) => new Map(entries.map(decoded) as [unknown, unknown][]),
  $set: (items: unknown[]) => new Set(items.map(decoded)),
  $number: Number,
  $bigint: BigInt,
};
const LOOKS_RECORDED = /^\$+(date|bytes|error|url|map|set|number|bigint)$/;

/** Read again, an integer that is not safe would be a bigint. */
function isOfJson(value: number): boolean {
  return Number.isFinite(value) && (Number.isSafeInteger(value) || !Number.isInteger(value));
}

function encoded(value: unknown): unknown {
  if (typeof value === "number" && !isOfJson(value)) return { $number: String(value) };
  if (typeof value === "bigint") return { $bigint: String(value) };
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Date) return { $date: value.toJSON() };
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString("base64") };
  if (value instanceof Error) return { $error: value.message };
  if (value instanceof URL) return { $url: value.href };
  if (value instanceof Map) return { $map: [...value].map(encoded) };
  if (value instanceof Set) return { $set: [...value].map(encoded) };
  if (Array.isArray(value)) return value.map(encoded);
  if ("toJSON" in value && typeof value.toJSON === "function") return encoded(value.toJSON());
  // What has nothing to record, such as a promise, is refused as in every step.
  if (Object.prototype.toString.call(value) !== "[object Object]") return value;
  const fields = Object.entries(value).map(([key, item]) => [LOOKS_RECORDED.test(key) ? `$${key}` : key, encoded(item)]);
  return Object.fromEntries(fields);
}

function decoded(json: unknown): unknown {
  if (typeof json !== "object" || json === null) return json;
  if (Array.isArray(json)) return json.map(decoded);
  const fields = Object.entries(json);
  const [only] = fields;
  const decode = fields.length === 1 && only && Object.hasOwn(DECODERS, only[0]) ? DECODERS[only[0]] : undefined;
  if (decode && only) return decode(only[1] as never);
  return Object.fromEntries(fields.map(([key, item]) => [LOOKS_RECORDED.test(key) ? key.slice(1) : key, decoded(item)]));
}
