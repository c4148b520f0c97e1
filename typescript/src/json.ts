import { invalid } from "./errors.js";

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Turns a value into JSON and back, where it is not JSON by itself. */
export interface Codec<T> {
  encode(value: T): unknown;
  decode(json: unknown): T;
}

/** The keys of options as JSON has them: `maxRetries` is `max_retries`. */
export function snake(options: object): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(options)) {
    if (value !== undefined) fields[key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)] = value as unknown;
  }
  return fields;
}

/** Objects of which JSON keeps what they hold. */
const KEPT = new Set(["[object Object]", "[object Array]", "[object String]", "[object Number]", "[object Boolean]"]);

/**
 * The JSON of a value. What JSON cannot hold is refused, not lost, however deep it is. As everywhere in JavaScript, a
 * field that is `undefined` is left out, and any other `undefined` is null.
 */
export function write(value: unknown, what: string): string {
  function checked(this: Record<string, unknown>, key: string, item: unknown): unknown {
    const lost = item === null ? lostByToJson(this[key]) : lostByJson(item);
    if (lost !== undefined) {
      const place = key === "" ? "" : ` at ${key}`;
      throw invalid(`${what} has ${lost}${place}, which JSON cannot hold`, "give a string or a plain object, or use a codec");
    }
    return item;
  }
  try {
    return (JSON.stringify(value, checked) as string | undefined) ?? "null";
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // A circle.
    throw invalid(`${what} cannot be JSON: ${error.message.split("\n")[0]}`);
  }
}

function lostByJson(item: unknown): string | undefined {
  if (typeof item === "number") return Number.isFinite(item) ? undefined : String(item);
  if (typeof item === "function" || typeof item === "symbol" || typeof item === "bigint") return `a ${typeof item}`;
  if (typeof item !== "object") return undefined;
  const tag = Object.prototype.toString.call(item);
  return KEPT.has(tag) ? undefined : `a value of the kind ${tag.slice("[object ".length, -1)}`;
}

function lostByToJson(original: unknown): string | undefined {
  return original instanceof Date ? "an invalid Date" : undefined;
}
