// Times that tick. A <time data-at> is rewritten once a second, by the daemon's clock.
import { el, setAttribute, setText } from "./dom.js";
import { duration } from "./text.js";

let skew = 0;

export const now = () => Date.now() + skew;

/** Takes over the daemon's clock; ours may differ when the page comes from another machine. */
export function setNow(iso) {
  skew = Date.parse(iso) - Date.now();
}

/** `form`: `ago` ("4 s ago"), `for` ("4 s"), `in` ("in 4 s"), `left` ("4 s left"), `at` (the time of day). */
export function time(iso, form = "ago") {
  return setTime(el("time", { class: "tabular" }), iso, form);
}

export function setTime(node, iso, form = node.dataset.form ?? "ago") {
  node.dataset.form = form;
  node.dataset.at = iso ? Date.parse(iso) : "";
  setAttribute(node, "datetime", iso ?? null);
  setAttribute(node, "title", iso ? full(iso) : null);
  return write(node);
}

/** Times of the day have 24 hours everywhere, as those of the command line. */
export const full = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
export const clockTime = (iso, tenths = false) => new Date(iso).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: tenths ? 1 : undefined, hourCycle: "h23" });

function write(node) {
  const { at, form } = node.dataset;
  setText(node, at ? say(Number(at), form) : "–");
  return node;
}

function say(at, form) {
  const gone = now() - at;
  switch (form) {
    case "for": return whole(gone);
    case "in": return gone >= 0 ? "now" : `in ${whole(-gone)}`;
    case "left": return gone >= 0 ? "overdue" : `${whole(-gone)} left`;
    case "at": return gone < 12 * 3600e3 ? clockTime(at) : new Date(at).toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
    default: return gone < 1500 ? "just now" : `${whole(gone)} ago`;
  }
}

// Tenths of a second would flicker.
const whole = (ms) => (ms < 60e3 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms));

setInterval(() => {
  if (!document.hidden) document.querySelectorAll("time[data-at]").forEach(write);
}, 1000);
