// Work in flight: what is held now, by whom, and at which step.
import { get } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, replace, setAttribute, setText } from "./dom.js";
import { card, empty, subjectLink, table } from "./parts.js";
import { stepCounts } from "./steps.js";
import { stepName } from "./text.js";
import { stepUnderWay } from "./verbs.js";

const SHOWN = 6;

export function flightCard(scope) {
  const list = table("Work in flight", ["Task", "Step", "Agent", "Steps", "Held for"], 2);
  list.node.classList.add("flight");
  const none = el("div", { hidden: true }, empty("Nobody works on a task now."));
  scope.refresh(async () => {
    const page = await get(["tasks"], { status: "in_progress", newest: true, limit: SHOWN }).catch(() => null);
    if (!page || scope.ended) return;
    const whole = await Promise.all(page.items.map((task) => get(["tasks", task.id]).catch(() => task)));
    keyed(list.body, whole, (task) => task.id, makeRow, fillRow);
    list.node.hidden = !whole.length;
    none.hidden = whole.length > 0;
  }, { concerns: (event) => event.task, gap_ms: 2000, every_ms: 10_000 });
  return card("Work in flight", { end: el("a", { href: "/tasks?status=in_progress", text: "All" }) }, el("div", { class: "scroll" }, list.node), none);
}

function makeRow(task) {
  return el("tr", {}, el("td", {}, subjectLink("task", task.id, { class: "agent-text name" }), el("small", { class: "agent-text" })), el("td", { class: "agent-text" }), el("td", { class: "agent-text" }),
    el("td", {}, el("progress"), el("small", { class: "tabular" })), el("td", {}, time(task.updated_at, "for")));
}

function fillRow(row, task) {
  const [name, step, agent, steps, since] = row.children;
  setText(name.lastChild, task.title);
  const at_step = stepName(stepUnderWay(task) ?? task.next_step);
  setText(step, at_step || "–");
  setAttribute(step, "title", at_step);
  step.classList.toggle("blank", !at_step);
  if (agent.dataset.agent !== (task.agent ?? "")) replace(agent, task.agent ? subjectLink("agent", task.agent) : task.holder?.text ?? "–");
  agent.dataset.agent = task.agent ?? "";
  setAttribute(agent, "title", agent.textContent);
  const { done, all } = stepCounts(task);
  setAttribute(steps.firstChild, "max", Math.max(1, all));
  setAttribute(steps.firstChild, "value", done);
  setAttribute(steps.firstChild, "aria-label", `${done} of ${all} steps done`);
  steps.firstChild.hidden = all === 0;
  setText(steps.lastChild, all ? `${done} of ${all}` : "–");
  steps.classList.toggle("blank", !all);
  setTime(since.firstChild, task.holder?.since ?? null, "for");
}
