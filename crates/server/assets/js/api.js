// Talks to the daemon over HTTP. Says who is logged in, and turns refusals into errors with a hint.

export const me = { scope: null, csrf: null };
const TIMEOUT_MS = 15_000;
const asked = new Map(); // what is being fetched, by its address
const known = Promise.withResolvers(); // until we know who is logged in, nothing else is asked

/** What the daemon refused. `status` is 0 when it could not be reached. */
export class ApiError extends Error {
  constructor(status, { code = "unreachable", message = "Relight cannot be reached", hint = null } = {}) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

/** Two parts of a page that ask for the same at the same time share one answer. */
export async function get(path, query) {
  await known.promise;
  const key = address(path, query);
  if (asked.has(key)) return asked.get(key);
  const answer = request("GET", path, query);
  asked.set(key, answer);
  try {
    return await answer;
  } finally {
    if (asked.get(key) === answer) asked.delete(key);
  }
}

export function post(path, body = {}) {
  return request("POST", path, null, body).finally(() => asked.clear()); // who asks after a change gets what is true after it
}

export const mayOperate = () => me.scope === "operate" || mayAdminister();
export const mayAdminister = () => me.scope === "admin";

/** Asks who we are; needed again after each restart of the daemon. */
export async function whoAmI() {
  Object.assign(me, await request("GET", ["me"]), { csrf: localStorage.getItem("relight-csrf") });
  known.resolve();
}

/** Each part of a path is encoded by itself, because ids may hold a `/`. */
export function address(path, query) {
  const filled = Object.entries(query ?? {}).filter(([, value]) => value != null && value !== "");
  const search = new URLSearchParams(filled).toString();
  return `/api/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

async function request(method, path, query, body) {
  const options = { method, headers: { Accept: "application/json" }, signal: AbortSignal.timeout(TIMEOUT_MS) };
  if (body) {
    options.body = JSON.stringify(body);
    Object.assign(options.headers, { "Content-Type": "application/json", "X-Relight-Csrf": me.csrf ?? "", "Idempotency-Key": crypto.randomUUID() });
  }
  const answer = await fetch(address(path, query), options).catch(() => { throw new ApiError(0); });
  const value = await answer.json().catch(() => ({}));
  if (answer.ok) return value;
  if (answer.status === 401) dispatchEvent(new Event("relight-logged-out"));
  throw new ApiError(answer.status, value.error ?? { code: "internal", message: `the daemon answered ${answer.status}` });
}

/** The newest events, newest first, whichever way the daemon lists them. */
export async function newestEvents(query, limit) {
  const { items } = await get(["events"], { ...query, newest: true, limit });
  return items.sort((a, b) => b.id - a.id);
}

/** The newest events before this one, newest first. */
export const eventsBefore = (query, limit, before) => newestEvents({ ...query, before }, limit);

/** All pages of a list, up to `limit_max` items. */
export async function getAll(path, query, limit_max) {
  const items = [];
  let after = null;
  do {
    const page = await get(path, { ...query, limit: Math.min(1000, limit_max - items.length), after });
    items.push(...page.items);
    after = page.next;
  } while (after && items.length < limit_max);
  return { items, more: Boolean(after) };
}
