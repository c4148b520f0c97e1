// The stream of events: connects, notices when it is gone, comes back where it was, and says so.
//
// Reconnects by itself instead of leaving it to EventSource: that one gives up at a 503, and cannot
// tell a daemon that is down from one that logged us out.
import { address, get, whoAmI } from "./api.js";
import { KINDS } from "./words.js";

const WAIT_MS_FIRST = 400;
const WAIT_MS_MAX = 4000;
const BATCH_MS = 120;
const BATCH_MAX = 2000;

/** `state`: connecting, live, lost, out. */
export const link = { state: "connecting", since: null };
const listeners = { link: new Set(), events: new Set(), refetch: new Set() };
let source = null;
let last_id = null;
let wait_ms = WAIT_MS_FIRST;
let batch = [];
let overflown = false;
let flush_timer = 0;

/** `link`: the state changed. `events`: an array of new ones. `refetch`: something may have been missed. */
export function on(topic, listener) {
  listeners[topic].add(listener);
  return () => listeners[topic].delete(listener);
}

export async function connect() {
  try {
    await whoAmI();
    await findPlace();
    open();
  } catch (error) {
    if (error.status === 401) return become("out");
    become("lost");
    setTimeout(connect, wait_ms);
    wait_ms = Math.min(WAIT_MS_MAX, wait_ms * 1.6);
  }
}

// A store that was put back from a copy counts from a smaller number; what we knew is void then.
async function findPlace() {
  const newest = (await get(["events"], { newest: true, limit: 1 })).items[0]?.id ?? 0;
  if (last_id === null || newest < last_id) last_id = newest;
}

function open() {
  source?.close();
  source = new EventSource(address(["events"], { after: last_id }));
  for (const kind of ["message", ...KINDS]) source.addEventListener(kind, take);
  source.addEventListener("dropped", () => tell("refetch"));
  source.onopen = () => {
    const again = link.since !== null;
    wait_ms = WAIT_MS_FIRST;
    become("live");
    if (again) tell("refetch");
  };
  source.onerror = () => {
    source.close();
    become("lost");
    setTimeout(connect, wait_ms);
  };
}

function take(message) {
  const event = JSON.parse(message.data);
  last_id = Math.max(last_id, Number(event.id));
  if (batch.length < BATCH_MAX) batch.push(event);
  else overflown = true;
  flush_timer ||= setTimeout(flush, BATCH_MS);
}

// One frame a batch: a burst of a thousand events costs one update.
function flush() {
  requestAnimationFrame(() => {
    const events = batch;
    batch = [];
    flush_timer = 0;
    tell("events", events);
    if (overflown) tell("refetch");
    overflown = false;
  });
}

function become(state) {
  if (link.state === state) return;
  Object.assign(link, { state, since: new Date().toISOString() });
  tell("link", link);
}

function tell(topic, value) {
  for (const listener of [...listeners[topic]]) listener(value);
}

// A browser keeps a page that was left for the way back, with its stream, and has only six connections to a host.
addEventListener("pagehide", () => source?.close());
addEventListener("pageshow", (event) => event.persisted && link.state !== "out" && connect());

addEventListener("relight-logged-out", () => {
  source?.close();
  become("out");
});
