// The numbers of the whole daemon, fetched once for all views and kept fresh.
import { get } from "./api.js";
import { calm } from "./calm.js";
import { setNow } from "./clock.js";
import { on } from "./live.js";

const GAP_MS = 1500;
const EVERY_MS = 20_000;
const listeners = new Set();
let latest = null;

export const stats = () => latest;

export function onStats(listener) {
  listeners.add(listener);
  if (latest) listener(latest);
  return () => listeners.delete(listener);
}

export const refreshStats = calm(async () => {
  try {
    latest = await get(["stats"], { hours: 24 });
  } catch {
    return; // The link says that it is lost; old numbers stay until it is back.
  }
  setNow(latest.now);
  for (const listener of [...listeners]) listener(latest);
}, GAP_MS);

export function keepFresh() {
  refreshStats();
  on("events", refreshStats);
  on("refetch", refreshStats);
  addEventListener("relight-acted", refreshStats);
  setInterval(() => document.hidden || refreshStats(), EVERY_MS);
}
