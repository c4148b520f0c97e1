// The list of tasks, a page at a time.
import { isWorkedOn } from "./verbs.js";
import { get } from "./api.js";
import { time, setTime } from "./clock.js";
import { el, keyed, replace, setAttribute, setText, skeleton } from "./dom.js";
import { card, chip, empty, pager, searchBox, setChip, subjectLink, table, tabs } from "./parts.js";
import { words } from "./text.js";
import { TASK_STATUSES } from "./words.js";

export const title = "Tasks";

const PAGE = 50;
const HEADINGS = ["Task", "Status", "Steps", "Agent", "Held by", "Updated"];

export function mount(root, scope) {
  root.append(new Tasks(scope).node);
}

class Tasks {
  status = "";
  agent = "";
  in_doubt = false;
  page = 0;
  cursors = [null];

  constructor(scope) {
    this.table = table("Tasks", HEADINGS, 12);
    this.none = el("div", { hidden: true });
    this.tabs = tabs("Show tasks by status", Object.keys(TASK_STATUSES), (status) => this.choose({ status }));
    this.pager = pager((by) => { this.page += by; this.load(); });
    this.node = card("Tasks", { class: "tasks", end: this.toolbar() }, this.tabs.node, el("div", { class: "scroll" }, this.table.node), this.none, this.pager.node);
    scope.on("stats", (stats) => { this.counts = stats.tasks; this.tabs.show(this.counts, this.status); });
    this.load = scope.refresh(() => this.fetch(), { concerns: (event) => event.task, gap_ms: 1000, every_ms: 30_000 });
  }

  toolbar() {
    const doubt = el("input", { type: "checkbox", on: { change: () => this.choose({ in_doubt: doubt.checked }) } });
    return el("div", { class: "filters" }, el("label", { class: "check" }, doubt, "in doubt only"),
      searchBox("Agent (whole name)", (agent) => this.choose({ agent })));
  }

  choose(change) {
    Object.assign(this, change, { page: 0, cursors: [null] });
    if (this.counts) this.tabs.show(this.counts, this.status);
    this.table.node.hidden = false;
    this.none.hidden = true;
    skeleton(this.table.body, 12, HEADINGS.length);
    this.fetch();
  }

  async fetch() {
    const query = { status: this.status, agent: this.agent, in_doubt: this.in_doubt || null, limit: PAGE, after: this.cursors[this.page] };
    const wanted = JSON.stringify(query);
    this.wanted = wanted;
    const page = await get(["tasks"], query).catch(() => null);
    if (!page || this.wanted !== wanted) return;
    if (page.next) this.cursors[this.page + 1] = page.next;
    this.show(page);
  }

  show({ items, next }) {
    keyed(this.table.body, items, (task) => task.id, makeRow, fillRow);
    this.table.node.hidden = !items.length;
    this.none.hidden = items.length > 0;
    if (!items.length) replace(this.none, this.nothing());
    this.pager.show(`page ${this.page + 1}`, this.page > 0, Boolean(next));
  }

  nothing() {
    if (this.status || this.agent || this.in_doubt) return empty("No task matches.");
    return empty("No tasks yet. Add one:", "relight task add first --title 'My first task' --step plan --step write", "Agents may also start their own: relight task start ID.");
  }
}

function makeRow(task) {
  return el("tr", { data: { task: task.id } },
    el("td", {}, subjectLink("task", task.id, { class: "agent-text name" }), el("small", { class: "agent-text" })),
    el("td", {}, chip(TASK_STATUSES, task.status), el("small", { class: "agent-text" })),
    el("td", {}, el("progress"), el("small", { class: "tabular" })),
    el("td", { class: "agent-text" }), el("td", {}, el("span", { class: "agent-text" }), el("small")), el("td", {}, time(task.updated_at)));
}

function fillRow(row, task) {
  const [name, status, steps, agent, holder, updated] = row.children;
  setText(name.lastChild, task.title);
  setChip(status.firstChild, TASK_STATUSES, task.status);
  setText(status.lastChild, task.reason);
  setAttribute(status.lastChild, "title", task.reason);
  fillSteps(steps, task);
  if (agent.textContent !== (task.agent ?? "–")) replace(agent, task.agent ? subjectLink("agent", task.agent) : "–");
  agent.classList.toggle("blank", !task.agent);
  holder.classList.toggle("blank", !task.holder);
  setText(holder.firstChild, task.holder?.text ?? "–");
  setText(holder.lastChild, task.holder && !task.holder.text.startsWith(task.holder.kind) ? words(task.holder.kind) : "");
  setTime(updated.firstChild, task.updated_at);
}

function fillSteps(cell, task) {
  const [bar, text] = cell.children;
  // Where steps were declared, only those count.
  const declared = task.steps_declared.length;
  const done = declared ? task.steps_declared_done : task.steps_done;
  const all = declared || task.steps_done + task.steps_in_doubt;
  setAttribute(bar, "max", Math.max(1, all));
  setAttribute(bar, "value", done);
  setAttribute(bar, "aria-label", `${done} of ${all} steps done`);
  bar.hidden = all === 0;
  const open = task.steps_in_doubt ? `, ${task.steps_in_doubt} ${isWorkedOn(task) ? "under way" : "in doubt"}` : "";
  setText(text, `${done} of ${all}${open}`);
  text.classList.toggle("doubt", task.steps_in_doubt > 0 && !isWorkedOn(task));
}
