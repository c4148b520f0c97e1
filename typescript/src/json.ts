import { randomUUID } from "node:crypto";

import { invalid } from "./errors.js";

/** A JSON value. An integer that a `number` would round is a `bigint`. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

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

/** Stands before the digits of a `bigint` while it is a text. No text of a program's has it. */
const MARK = `bigint:${randomUUID()}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");
/** What begins and ends texts, what is escaped in them, and numbers. */
const TOKENS = /\\.|"|-?\d[\d.eE+-]*/g;
/** What the store can hold. */
const [INTEGER_MIN, INTEGER_MAX] = [-(2n ** 63n), 2n ** 64n - 1n];

/** The value of a JSON text. An integer that a `number` would round is a `bigint`. */
export function parse(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let isInText = false;
  const marked = text.replace(TOKENS, (token) => {
    if (token === '"') isInText = !isInText;
    const isRounded = !isInText && /^-?\d+$/.test(token) && !Number.isSafeInteger(Number(token));
    return isRounded ? `"${MARK}${token}"` : token;
  });
  const unmarked = (_: string, item: unknown) =>
    typeof item === "string" && item.startsWith(MARK) ? BigInt(item.slice(MARK.length)) : item;
  return JSON.parse(marked, unmarked);
}

/** Objects of which JSON keeps what they hold. */
const KEPT = new Set(["[object Object]", "[object Array]", "[object String]", "[object Number]", "[object Boolean]"]);

/**
 * The JSON of a value. What JSON cannot hold is refused, not lost, however deep it is. As everywhere in JavaScript, a
 * field that is `undefined` is left out, and any other `undefined` is null.
 */
export function write(value: unknown, what: string): string {
  function checked(this: Record<string, unknown>, key: string, item: unknown): unknown {
    const original = this[key];
    const large = largeInteger(item) ?? largeInteger(original);
    if (large !== undefined && INTEGER_MIN <= large && large <= INTEGER_MAX) return `${MARK}${large}`;
    const lost = item === null ? lostByToJson(original) : lostByJson(item);
    if (lost !== undefined) {
      const place = key === "" ? "" : ` at ${key}`;
      throw invalid(`${what} has ${lost}${place}, which JSON cannot hold`, "give a string or a plain object, or use a codec");
    }
    return item;
  }
  try {
    return ((JSON.stringify(value, checked) as string | undefined) ?? "null").replace(MARKED, "$1");
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // A circle.
    throw invalid(`${what} cannot be JSON: ${error.message.split("\n")[0]}`);
  }
}

/** An integer of which JSON.stringify would not keep every digit. */
function largeInteger(item: unknown): bigint | undefined {
  if (typeof item === "bigint") return item;
  return Number.isInteger(item) && !Number.isSafeInteger(item) ? BigInt(item as number) : undefined;
}

function lostByJson(item: unknown): string | undefined {
  if (typeof item === "number") return Number.isFinite(item) ? undefined : String(item);
  if (typeof item === "function" || typeof item === "symbol") return `a ${typeof item}`;
  if (typeof item === "bigint") return "an integer of more than 64 bits";
  if (typeof item !== "object") return undefined;
  const tag = Object.prototype.toString.call(item);
  return KEPT.has(tag) ? undefined : `a value of the kind ${tag.slice("[object ".length, -1)}`;
}

function lostByToJson(original: unknown): string | undefined {
  return original instanceof Date ? "an invalid Date" : undefined;
}
