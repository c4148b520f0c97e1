// The page of one task: its steps over time, what is in doubt and next, the brief, and what happened, in words.
import { inDoubt, taskButton, taskVerbs } from "./verbs.js";
import { get } from "./api.js";
import { time } from "./clock.js";
import { el, replace } from "./dom.js";
import { journal } from "./journal.js";
import { button, card, chip, empty, facts, subjectLink } from "./parts.js";
import { textCard } from "./output.js";
import { money, tokens } from "./text.js";
import { TASK_STATUSES } from "./words.js";
import { history, waterfall } from "./waterfall.js";

export const title = "Task";

const EVENTS = 20;

export function mount(root, scope, id, heading) {
  const top = el("div", { class: "page-top" });
  const steps = el("div", { class: "fill" });
  const more = el("div");
  let past = null;
  const told = journal(5, false, () => past?.names);
  const brief = el("div");
  let zoom = 1;
  let drawn = null;
  const turn = (by) => { zoom = Math.min(8, Math.max(1, zoom * by)); if (drawn) redraw(); };
  const redraw = () => { const left = steps.querySelector(".scroll")?.scrollLeft ?? 0; replace(steps, stepsTable(...drawn, zoom)); steps.querySelector(".scroll")?.scrollTo(left, 0); };
  const zooms = el("div", { class: "zoom", role: "group", "aria-label": "Zoom" }, button("−", () => turn(0.5), { "aria-label": "Zoom out" }), button("+", () => turn(2), { "aria-label": "Zoom in" }));
  root.append(top, card("Steps", { class: "steps", end: zooms }, steps), el("div", { class: "page spaced" },
    el("div", { class: "stack" }, card("What happened", { end: el("a", { href: `/events?task=${encodeURIComponent(id)}`, text: "All events" }) }, el("div", { class: "scroll" }, told.node)), brief),
    more));
  scope.refresh(async () => {
    try {
      const task = await get(["tasks", id]);
      const found = await history(task);
      if (scope.ended) return;
      past = found;
      drawn = [task, past];
      show(task, past, { top, more, redraw });
      told.show(past.events.slice(-EVENTS).reverse());
      showBrief(brief, task);
    } catch (error) {
      if (error.status === 404 || error.status === 422) replace(root, root.querySelector(".crumbs"), heading, empty("There is no such task.", "relight task list"));
    }
  }, { concerns: (event) => event.task === id || event.kind.startsWith("attempt."), gap_ms: 800, every_ms: 10_000 });
}

// Drawn anew only when something changed, so that a focused button stays; what is under way grows with time.
function show(task, past, { top, more, redraw }) {
  const key = `${JSON.stringify({ ...task, holder: { ...task.holder, left_ms: null } })} ${past.events.length}`;
  const is_same = top.dataset.key === key;
  if (!is_same || task.holder?.alive) redraw();
  if (is_same) return;
  top.dataset.key = key;
  replace(top, chip(TASK_STATUSES, task.status), el("span", { class: "agent-text", text: task.title || "" }), task.reason && el("span", { class: "soft agent-text", text: task.reason }),
    el("div", { class: "filters end" }, ...taskVerbs(task).map((verb) => taskButton(task, verb))));
  replace(more, el("div", { class: "stack" }, aboutCard(task), jsonCard("Context", task.context), jsonCard("Payload", task.payload)));
}

function stepsTable(task, past, zoom) {
  if (!task.steps.length && !task.remaining_steps?.length && !past.holds.length) return empty("No step yet. In the agent:", `relight step run NAME --task ${task.id} -- CMD`);
  return waterfall(task, past, new Set(inDoubt(task)), zoom);
}

/** Of work that was taken up and is not over. */
async function showBrief(place, task) {
  if (!task.starts) return;
  const brief = await get(["tasks", task.id, "brief"]).catch(() => null);
  if (!brief?.text || place.dataset.text === brief.text) return;
  place.dataset.text = brief.text;
  const note = brief.given_to ? `given to attempt ${brief.given_to}` : "as the next attempt would get it";
  replace(place, textCard("Brief for the successor", brief.text, { note, file: `${task.id}-brief.md` }));
}

function aboutCard(task) {
  const { holder } = task;
  return card("About", {}, facts([
    ["Agent", task.agent && subjectLink("agent", task.agent)], ["Held by", holder?.text], ["Held since", holder && time(holder.since)],
    ["Lease left", holder?.left_ms != null && time(new Date(Date.now() + holder.left_ms).toISOString(), "left")],
    ["Cost", Number(task.cost) ? money(task.cost) : null], ["Turns", task.turns || null], ["Tokens in", tokens(task.input_tokens)], ["Tokens out", tokens(task.output_tokens)],
    ["Fence", task.fence], ["Starts", task.starts], ["Retries", `${task.retries} of ${task.max_retries} used`], ["Recoveries without progress", task.recoveries || null], ["Strategy", task.strategy_in_effect],
    ["Priority", task.priority || null], ["Needs", task.needs?.join(", ")], ["Belongs to its agent", task.pinned ? "yes" : null],
    ["Not before", task.not_before && time(task.not_before, "in")], ["Expires", task.expires_at && time(task.expires_at, "in")],
    ["Last progress", task.progress_at && time(task.progress_at)], ["Created", time(task.created_at)], ["Updated", time(task.updated_at)],
  ].filter(([, value]) => value !== false && value != null)));
}

function jsonCard(name, value) {
  if (value == null || (typeof value === "object" && !Object.keys(value).length)) return null;
  const is_flat = typeof value === "object" && !Array.isArray(value) && Object.values(value).every((part) => typeof part !== "object");
  if (is_flat) return card(name, {}, facts(Object.entries(value).map(([key, part]) => [key, String(part)])));
  return textCard(name, JSON.stringify(value, null, 2), { file: `${name.toLowerCase()}.json` });
}
