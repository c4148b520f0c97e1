// The log of one agent: searched, of one attempt or of all, followed.
import { get } from "./api.js";
import { clockTime } from "./clock.js";
import { el, replace, setText } from "./dom.js";
import { textButtons } from "./output.js";
import { card, searchBox } from "./parts.js";
import { clean, count } from "./text.js";

const LINES = 500;
const LINES_NEW = 40; // looked at for what is new
const LINES_MAX = 5000; // the most that the daemon gives
const LOOK_MS = 2000;

export function logCard(scope, name) {
  const field = el("pre", { class: "log tall agent-text", tabindex: 0, role: "log", "aria-live": "off", "aria-label": `Log of ${name}` });
  const note = el("span", { class: "soft", role: "status" });
  const follow = el("input", { type: "checkbox", checked: true, on: { change: () => load() } });
  const times = el("input", { type: "checkbox", on: { change: () => show() } });
  const attempt = el("select", { "aria-label": "Attempt", on: { change: () => { lines = null; load(); } } }, el("option", { value: "", text: "every attempt" }));
  let search = "";
  let lines = null;
  let told = null;
  const find = searchBox("Search the log", (text) => { search = text.toLowerCase(); lines = null; load(); });

  function show() {
    if (!lines) return;
    const shown = lines.map((text, index) => [text, told.times[index]]).filter(([text]) => !search || text.toLowerCase().includes(search));
    const stamp = (at) => (times.checked ? `${at ? clockTime(at) : "        "}  ` : "");
    const whole = shown.map(([text, at]) => stamp(at) + text).join("\n");
    const text = clean(whole || (search ? "(no line matches)" : "(nothing yet)"), 4_000_000);
    setText(note, [search && `${count(shown.length)} of ${count(lines.length)} lines`, told.note ? clean(told.note) : told.truncated ? `last ${count(lines.length)} lines` : ""].filter(Boolean).join(", "));
    if (field.textContent === text) return;
    field.textContent = text;
    if (follow.checked) field.scrollTop = field.scrollHeight;
  }

  async function load() {
    const log = await get(["agents", name, "logs"], { lines: search ? LINES_MAX : LINES, attempt: attempt.value }).catch(() => null);
    if (!log || scope.ended) return;
    told = log;
    lines = log.lines;
    show();
  }

  /** The newest first; the one chosen stays. */
  async function attempts() {
    const page = await get(["attempts"], { agent: name, limit: 200 }).catch(() => null);
    if (!page || scope.ended) return;
    const chosen = attempt.value;
    replace(attempt, el("option", { value: "", text: "every attempt" }), ...page.items.map((one) => el("option", { value: one.number, text: `#${one.number}${one.cause ? ` ${one.cause}` : " alive"}`, selected: String(one.number) === chosen })));
  }

  /** Fetches only the last lines, and all of them where these do not join those that are here. */
  async function look() {
    if (!lines) return load();
    const [before, asked] = [told, attempt.value];
    const end = await get(["agents", name, "logs"], { lines: LINES_NEW, attempt: asked }).catch(() => null);
    if (!end || scope.ended || told !== before || attempt.value !== asked) return;
    const fresh = linesAfter(told, end);
    if (fresh === null || end.note !== told.note) return load();
    if (!fresh) return;
    const lines_max = search ? LINES_MAX : LINES;
    const joined = (one) => [...told[one], ...end[one].slice(-fresh)].slice(-lines_max);
    told = { ...told, truncated: told.truncated || lines.length + fresh > lines_max, lines: joined("lines"), times: joined("times") };
    lines = told.lines;
    show();
  }

  load();
  scope.refresh(attempts, { concerns: (event) => event.agent === name && event.kind.startsWith("attempt."), gap_ms: 1500 });
  scope.every(LOOK_MS, () => follow.checked && look());
  return card("Log", { class: "log-card", end: el("div", { class: "filters" }, note, attempt, find, el("label", { class: "check" }, times, "times"), el("label", { class: "check" }, follow, "follow"), ...textButtons(() => field.textContent, `${name}.log`)) }, field);
}

/** How many lines at the end of `end` are not in `log`; `null` where that cannot be told. */
function linesAfter(log, end) {
  const line = (from, index) => `${from.times[index]} ${from.lines[index]}`;
  for (let fresh = 0; fresh < end.lines.length; fresh++) {
    const shared = end.lines.length - fresh;
    const start = log.lines.length - shared;
    if (start >= 0 && end.lines.slice(0, shared).every((_, index) => line(end, index) === line(log, start + index))) return fresh;
  }
  return log.lines.length || end.lines.length ? null : 0;
}
