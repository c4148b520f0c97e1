// The steps of a task over time: who held it, each try of each step, and when nobody worked on it.
import { getAll, newestEvents, eventsBefore } from "./api.js";
import { clockTime, full, now } from "./clock.js";
import { el, replace, svg } from "./dom.js";
import { chip } from "./parts.js";
import { at } from "./route.js";
import { who } from "./story.js";
import { duration, stepName } from "./text.js";
import { isUnderWay, isWorkedOn, resolveButton } from "./verbs.js";
import { CAUSES, STEP_STATES, isCrash } from "./words.js";

const EVENTS_PAGE = 1000;
const EVENTS_MAX = 5000;
const AGENTS_MAX = 8;
const GAP_WIDTH = 0.04; // of a long gap, when those are shortened
const SHORTENED_FROM = 0.3; // of the whole: below, gaps are drawn to scale
const SECONDS_FROM_MS = 5000; // shorter spans have tenths of a second at their ticks

/** All that the pages of a task and of its steps are drawn from. */
export async function history(task) {
  const events = await taskEvents(task.id);
  const agents = new Set([task.agent, ...events.map((event) => event.kind === "task.assigned" && event.detail?.agent)].filter(Boolean));
  const attempts = (await Promise.all([...agents].slice(-AGENTS_MAX).map((agent) => getAll(["attempts"], { agent }, 1000).catch(() => ({ items: [] }))))).flatMap((page) => page.items);
  const by_tag = new Map(attempts.map((attempt) => [attempt.tag, attempt]));
  const names = new Map(attempts.map((attempt) => [attempt.tag, `${attempt.agent} #${attempt.number}`]));
  const holds = holdsOf(task, events, by_tag, names);
  return { events, names, holds, steps: stepsOf(task, events, holds), is_cut: events.length >= EVENTS_MAX };
}

/** Newest last. */
async function taskEvents(id) {
  let found = await newestEvents({ task: id }, EVENTS_PAGE);
  let page = found;
  while (page.length === EVENTS_PAGE && found.length < EVENTS_MAX) {
    page = await eventsBefore({ task: id }, EVENTS_PAGE, found.at(-1).id);
    found = [...found, ...page];
  }
  return found.reverse();
}

/** Who held it from when to when; the death of an attempt counts from its last sign of life. */
function holdsOf(task, events, by_tag, names) {
  const holds = [];
  for (const event of events) {
    const time = Date.parse(event.at);
    const open = holds.at(-1)?.to === null ? holds.at(-1) : null;
    if (["lease.taken", "lease.ended", "fence.raised"].includes(event.kind) && open) Object.assign(open, { to: Math.max(open.from, Math.min(time, lastSign(open.attempt) ?? time)), let_go: time });
    if (event.kind !== "lease.taken") continue;
    const holder = event.detail?.holder;
    holds.push({ from: time, to: null, who: who(holder, names), attempt: by_tag.get(holder?.attempt), fence: event.fence });
  }
  const last = holds.at(-1);
  if (last?.to === null && !task.holder?.alive) last.to = lastSign(last.attempt) ?? Date.parse(task.updated_at);
  return holds;
}

const lastSign = (attempt) => (attempt?.ended_at ? Date.parse(attempt.down_since ?? attempt.ended_at) : null);

const ENDS = { __proto__: null, "step.done": "done", "step.failed": "failed", "step.skipped": "skipped", "step.resolved": "resolved" };

/** Each step with its tries. One begun again under another lease was cut off. */
function stepsOf(task, events, holds) {
  const steps = new Map();
  const tries = (name) => steps.get(name) ?? steps.set(name, []).get(name);
  const holdAt = (time) => holds.findLast((hold) => hold.from <= time);
  let before = holds[0]?.from ?? null; // the end of what was recorded last
  for (const event of events) {
    const time = Date.parse(event.at);
    if (event.kind === "step.cleared") steps.clear();
    const name = stepName(event.step);
    const of = name && (event.kind === "step.begun" || event.kind in ENDS) ? tries(name) : null;
    const open = of?.at(-1)?.to === null ? of.at(-1) : null;
    if (of && event.kind === "step.begun") {
      if (open) cutOff(open, time, holds);
      of.push({ from: time, to: null, outcome: "begun", hold: holdAt(time), fence: event.fence });
    } else if (of) {
      const end = { to: time, outcome: event.kind === "step.resolved" ? (event.detail?.happened ? "done" : "failed") : ENDS[event.kind], exit_code: event.detail?.exit_code };
      if (event.kind === "step.resolved") {
        if (open) cutOff(open, time, holds);
        of.push({ ...end, from: time, is_mark: true, by: "a person" });
      } else if (open) Object.assign(open, end);
      // Its begin was not written by itself: it lies after what was recorded before.
      else of.push({ ...end, from: Math.max(before ?? time, holdAt(time)?.from ?? time), is_bound: event.kind !== "step.skipped", is_mark: event.kind === "step.skipped", hold: holdAt(time) });
    }
    before = time;
  }
  for (const of of steps.values()) {
    const last = of.at(-1);
    // What an earlier holder began is in doubt, whoever has the task now.
    if (last?.to === null && !isUnderWay(task, last.from)) Object.assign(cutOff(last, Date.parse(task.updated_at), holds), { outcome: "in_doubt" });
  }
  return steps;
}

function cutOff(one, time, holds) {
  const hold = one.hold ?? holds.at(-1);
  return Object.assign(one, { to: Math.max(one.from, Math.min(hold?.to ?? time, time)), outcome: "cut_off" });
}

// -- drawing ------------------------------------------------------------------------------------------

/** Time to percent. Long stretches in which nobody had the task are made short. */
function scaleOf(holds, steps) {
  const tries = [...steps.values()].flat();
  const from = Math.min(...holds.map((hold) => hold.from), ...tries.map((one) => one.from));
  const to = Math.max(...holds.map((hold) => hold.to ?? now()), ...tries.map((one) => one.to ?? now()), from + 1000);
  const gaps = [];
  let end = null;
  for (const hold of holds) {
    if (end !== null && hold.from > end) gaps.push({ from: end, to: hold.from });
    end = Math.max(end ?? 0, hold.to ?? now());
  }
  const lost = gaps.reduce((all, gap) => all + gap.to - gap.from, 0);
  const is_short = lost > (to - from) * SHORTENED_FROM && gaps.length * GAP_WIDTH < 0.5;
  const unit = is_short ? (1 - gaps.length * GAP_WIDTH) / Math.max(1, to - from - lost) : 1 / (to - from);
  const x = (time) => {
    let width = (Math.min(time, to) - from) * unit;
    for (const gap of is_short ? gaps : []) {
      const within = Math.max(0, Math.min(time, gap.to) - gap.from);
      width += (within / (gap.to - gap.from)) * GAP_WIDTH - within * unit;
    }
    return 100 * Math.max(0, Math.min(1, width));
  };
  return { x, from, to, gaps, is_short };
}

const pc = (number) => `${number.toFixed(3)}%`;

function rect(kind, left, right, title, attributes = {}) {
  return svg("rect", { class: kind, x: pc(left), width: pc(Math.max(0.35, right - left)), ...attributes }, svg("title", {}, title));
}

/** The table of steps with their waterfall. `order`: names, finished ones first, then those to come. */
export function waterfall(task, past, doubts, zoom = 1) {
  const { holds, steps } = past;
  const scale = scaleOf(holds, steps);
  const has_time = holds.length > 0 || steps.size > 0;
  const head = el("tr", {}, ...["Step", "State", "Tries", "Took"].map((text) => el("th", { scope: "col", text })),
    el("th", { scope: "col", class: "wf-head" }, el("span", { class: "unseen", text: "When" }), has_time && axis(scale)));
  const body = el("tbody", {}, has_time && holds.length > 0 && holderRow(holds, scale), ...rowsOf(task, steps).map((row) => stepRow(task, row, steps.get(row.name) ?? [], scale, doubts, has_time)));
  return el("div", {}, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Steps over time" }, el("table", { class: `waterfall ${zoom > 1 ? `x${zoom}` : ""}` }, el("caption", { class: "unseen", text: "Steps of the task over time" }), el("thead", {}, head), body)), legend(scale, past));
}

/** Recorded steps in the order of their first begin, then those that were declared only. */
function rowsOf(task, steps) {
  const recorded = task.steps.map((step) => ({ name: stepName(step), step }));
  const first = (row) => steps.get(row.name)?.[0]?.from ?? Date.parse(row.step.at);
  recorded.sort((a, b) => first(a) - first(b));
  const known = new Set(recorded.map((row) => row.name));
  const waiting = (task.remaining_steps ?? []).map(stepName).filter((name) => !known.has(name)).map((name) => ({ name, step: null }));
  return [...recorded, ...waiting];
}

function axis(scale) {
  const whole = scale.to - scale.from;
  const percents = scale.is_short ? [0] : [0, 25, 50, 75];
  const labels = percents.map((percent) => svg("text", { x: `${percent}%`, y: 14 }, clockTime(scale.from + (whole * percent) / 100, whole < SECONDS_FROM_MS)));
  return svg("svg", { class: "wf", height: 20, role: "img", "aria-label": `From ${full(scale.from)} to ${full(scale.to)}` }, ...labels);
}

function gapRects(scale) {
  return scale.gaps.map((gap) => rect("gap", scale.x(gap.from), scale.x(gap.to), `Nobody worked on it for ${duration(gap.to - gap.from)}`, { y: 0, height: "100%" }));
}

function holderRow(holds, scale) {
  const bands = holds.map((hold, index) => {
    const left = scale.x(hold.from);
    const right = scale.x(hold.to ?? now());
    const cause = hold.attempt?.cause;
    const end = hold.to === null ? "has it now" : cause && isCrash(cause) && index < holds.length ? `died: ${hold.attempt.how ?? cause}` : "let it go";
    const title = `${hold.who}: ${full(hold.from)}, for ${duration((hold.to ?? now()) - hold.from)}, ${end}`;
    return svg("g", { class: cause && isCrash(cause) && hold.to !== null ? "hold died" : "hold" }, rect("band", left, right, title, { y: 3, height: 18, rx: 3 }), right - left > 12 && svg("text", { x: pc(left + 0.6), y: 16 }, hold.who));
  });
  const people = [...new Set(holds.map((hold) => hold.who))];
  return el("tr", { class: "holders" }, el("th", { scope: "row", text: "Held by" }), el("td", { class: "agent-text soft", text: people.length > 2 ? `${people.length} holders` : people.join(", ") }), el("td"),
    el("td", { class: "tabular soft", text: duration(scale.to - scale.from) }), el("td", { class: "wf-cell" }, svg("svg", { class: "wf", height: 24, role: "img", "aria-label": `Held ${holds.length} times, by ${people.join(", ")}` }, ...gapRects(scale), ...bands)));
}

function stepRow(task, { name, step }, tries, scale, doubts, has_time) {
  const state = !step ? "waiting" : doubts.has(step) ? "in_doubt" : step.state;
  const is_next = stepName(task.next_step) === name;
  const took = tries.length ? tookText(tries.at(-1)) : "–";
  const told = tries.map((one) => tryText(one)).join("; ");
  return el("tr", { class: is_next ? "next" : "", data: { step: name, state } },
    el("td", {}, step ? el("a", { href: at("tasks", task.id, "steps", name), class: "agent-text name", text: name }) : el("span", { class: "agent-text", text: name }), is_next && el("small", { text: "next" })),
    el("td", {}, chip(STEP_STATES, state), state === "in_doubt" && !isWorkedOn(task) && resolveButton(task, step)),
    el("td", { class: "tabular" }, step ? String(step.tries || tries.length || "") : "", step?.exit_code ? el("small", { text: `exit ${step.exit_code}` }) : null),
    el("td", { class: "tabular", text: took }),
    el("td", { class: "wf-cell" }, has_time && svg("svg", { class: "wf", height: 24, role: "img", "aria-label": told || "not begun" }, ...gapRects(scale), ...tries.map((one) => bar(one, scale)))));
}

function bar(one, scale) {
  const left = scale.x(one.from);
  const right = scale.x(one.to ?? now());
  return rect(`try ${one.outcome}${one.is_bound ? " bound" : ""}`, one.is_mark ? right : left, right, tryText(one), { y: 6, height: 12, rx: 2 });
}

export const tookText = (one) => (one.is_mark ? "–" : `${one.is_bound ? "≤ " : ""}${duration((one.to ?? now()) - one.from)}`);

const OUTCOMES = { __proto__: null, done: "finished", failed: "failed", begun: "under way", cut_off: "cut off: its holder died", in_doubt: "in doubt", skipped: "skipped" };

export function tryText(one) {
  const by = one.by ?? one.hold?.who;
  return `${OUTCOMES[one.outcome] ?? one.outcome}${one.exit_code ? ` (exit ${one.exit_code})` : ""}, ${full(one.from)}${one.is_mark ? "" : `, ${tookText(one)}`}${by ? `, by ${by}` : ""}`;
}

export const outcomeChip = (one) => chip(OUTCOME_CHIPS, one.outcome, OUTCOMES[one.outcome]?.split(":")[0] ?? one.outcome);
const OUTCOME_CHIPS = { ...STEP_STATES, cut_off: CAUSES.signal };

function legend(scale, past) {
  const one = (kind, text) => el("span", { class: "mark" }, el("i", { class: `wf-${kind}` }), text);
  const seen = new Set([...past.steps.values()].flat().map((one) => one.outcome));
  const notes = [scale.is_short && "Times without a holder are drawn short.", [...past.steps.values()].flat().some((one) => one.is_bound) && "≤: the begin was not recorded by itself.", past.is_cut && "Only the newest events are drawn."].filter(Boolean);
  const marks = [["done", "finished"], ["begun", "under way"], ["failed", "failed"], ["cut_off", "cut off"], ["in_doubt", "in doubt"]].filter(([kind]) => seen.has(kind)).map(([kind, text]) => one(kind, text));
  const node = el("p", { class: "legend pad" });
  replace(node, ...marks, scale.gaps.length > 0 && one("gap", "nobody had it"), notes.length > 0 && el("span", { class: "hint", text: notes.join(" ") }));
  return node;
}
