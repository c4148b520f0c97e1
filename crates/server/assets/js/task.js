// The page of one task: what is done, in doubt and next, and what a person can do about it.
import { inDoubt, resolveButton, taskButton, taskVerbs } from "./verbs.js";
import { get, newestEvents } from "./api.js";
import { time } from "./clock.js";
import { el, replace } from "./dom.js";
import { journal } from "./journal.js";
import { card, chip, empty, facts, subjectLink, table } from "./parts.js";
import { stepName } from "./text.js";
import { STEP_STATES, TASK_STATUSES } from "./words.js";

export const title = "Task";

export function mount(root, scope, id, heading) {
  heading.textContent = "";
  heading.append(el("span", { class: "agent-text", text: id }));
  const top = el("div", { class: "page-top" });
  const steps = table("Steps", ["Step", "State", "Repeat rule", "Tries", "At", ""], 5);
  const more = el("div");
  const past = journal(5, false);
  root.append(top, el("div", { class: "page" },
    el("div", { class: "stack" }, card("Steps", {}, el("div", { class: "scroll" }, steps.node)), card("What happened", {}, el("div", { class: "scroll" }, past.node))),
    more));
  scope.refresh(async () => {
    try {
      const [task, events] = await Promise.all([get(["tasks", id]), newestEvents({ task: id }, 30)]);
      if (scope.ended) return;
      show(task, top, steps.body, more);
      past.show(events);
    } catch (error) {
      if (error.status === 404) replace(root, heading, empty("There is no such task any more.", "relight task list"));
    }
  }, { concerns: (event) => event.task === id, gap_ms: 600, every_ms: 20_000 });
}

// Drawn anew only when something changed, so that a focused button stays.
function show(task, top, body, more) {
  const key = JSON.stringify(task);
  if (top.dataset.key === key) return;
  top.dataset.key = key;
  replace(top, chip(TASK_STATUSES, task.status), el("span", { class: "agent-text", text: task.title || "" }), task.reason && el("span", { class: "soft agent-text", text: task.reason }),
    el("div", { class: "filters end" }, ...taskVerbs(task).map((verb) => taskButton(task, verb))));
  replace(body, ...stepRows(task));
  replace(more, el("div", { class: "stack" }, aboutCard(task), jsonCard("Context", task.context), jsonCard("Payload", task.payload)));
}

function stepRows(task) {
  const doubts = new Set(inDoubt(task));
  const begun = task.steps.map((step) => stepRow(task, step, doubts.has(step) ? "in_doubt" : step.state));
  const known = new Set(task.steps.map((step) => step.name));
  const rest = (task.remaining_steps ?? []).map(stepName).filter((name) => !known.has(name));
  const waiting = rest.map((name) => stepRow(task, { name, occurrence: 1 }, "waiting"));
  if (begun.length + waiting.length) return [...begun, ...waiting];
  return [el("tr", {}, el("td", { colspan: 6 }, empty("No step yet. In the agent:", `relight step run NAME --task ${task.id} -- CMD`)))];
}

function stepRow(task, step, state) {
  const next = stepName(task.next_step) === stepName(step);
  return el("tr", { class: next ? "next" : "" },
    el("td", {}, el("b", { class: "agent-text", text: stepName(step) }), next && el("small", { text: "next" })),
    el("td", {}, chip(STEP_STATES, state)), el("td", { class: step.rule ? "" : "blank", text: step.rule ?? "" }),
    el("td", { class: `tabular ${step.tries ? "" : "blank"}`, data: { label: "tries" }, text: step.tries ?? "" }),
    el("td", {}, step.at && time(step.at), step.exit_code != null && el("small", { text: `exit ${step.exit_code}` })),
    el("td", {}, state === "in_doubt" && resolveButton(task, step)));
}

function aboutCard(task) {
  const { holder } = task;
  return card("About", {}, facts([
    ["Agent", task.agent && subjectLink("agent", task.agent)], ["Held by", holder?.text], ["Held since", holder && time(holder.since)],
    ["Lease left", holder?.left_ms != null && time(new Date(Date.now() + holder.left_ms).toISOString(), "left")],
    ["Fence", task.fence], ["Starts", task.starts], ["Retries", `${task.retries} of ${task.max_retries}`], ["Recoveries", task.recoveries], ["Strategy", task.strategy_in_effect],
    ["Cost", task.cost], ["Turns", task.turns], ["Priority", task.priority], ["Needs", task.needs?.join(", ")],
    ["Not before", task.not_before && time(task.not_before, "in")], ["Expires", task.expires_at && time(task.expires_at, "in")],
    ["Created", time(task.created_at)], ["Updated", time(task.updated_at)],
  ].filter(([, value]) => value !== false && value != null)));
}

function jsonCard(name, value) {
  if (value == null || (typeof value === "object" && !Object.keys(value).length)) return null;
  return card(name, {}, el("pre", { class: "log agent-text", text: JSON.stringify(value, null, 2) }));
}
