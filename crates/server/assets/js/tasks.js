// The list of tasks, newest first. Pages are fetched as one scrolls; sorting by a column needs all of them.
import { isWorkedOn } from "./verbs.js";
import { get } from "./api.js";
import { time, setTime } from "./clock.js";
import { el, replace, setAttribute, setText, skeleton } from "./dom.js";
import { card, chip, comparison, empty, searchBox, setChip, sortHeads, subjectLink, table, tabs } from "./parts.js";
import { filters, setFilters } from "./route.js";
import { Rows } from "./rows.js";
import { stepCounts } from "./steps.js";
import { count, words } from "./text.js";
import { TASK_STATUSES } from "./words.js";

export const title = "Tasks";

const FIRST = 100;
export const FIRST_OF_AGENT = 40; // as many as its bars show
const PAGE = 1000; // the most that the daemon gives at once
const MENDED_MAX = 8;
const COLUMNS = [["id", "Task"], ["status", "Status"], ["steps", "Steps"], ["agent", "Agent"], ["holder", "Held by"], ["cost", "Cost"], ["updated", "Updated"]];
const ORDER = Object.keys(TASK_STATUSES);
const NEWEST_FIRST = "-added"; // as the daemon lists them
const SORT = {
  __proto__: null,
  id: (task) => task.id, status: (task) => ORDER.indexOf(task.status), steps: (task) => stepCounts(task).part, agent: (task) => task.agent,
  holder: (task) => task.holder?.text, cost: (task) => Number(task.cost) || null, updated: (task) => Date.parse(task.updated_at), added: (task) => Date.parse(task.created_at),
};
const row_height = () => (innerWidth <= 720 ? 94 : 52); // as in style.css and pages.css

export function mount(root, scope) {
  root.append(new TaskTable(scope, filters()).node);
}

/** The tasks of one agent, as a card. */
export function tasksCard(scope, title, agent) {
  return new TaskTable(scope, { agent }, title).node;
}

class TaskTable {
  items = [];
  next = null; // where the next page begins; undefined when there is none
  ticket = 0;

  constructor(scope, { status, agent, find, in_doubt, sort }, title = null) {
    this.scope = scope;
    this.is_page = title === null;
    Object.assign(this, { status: status in TASK_STATUSES ? status : "", agent: agent ?? "", find: find ?? "", in_doubt: in_doubt === "true", sort: sort?.replace("-", "") in SORT ? sort : NEWEST_FIRST });
    this.table = table("Tasks", sortHeads(COLUMNS, this.sort, (chosen) => this.choose({ sort: chosen }), ["cost", "updated"]), 12);
    this.rows = new Rows(scope, this.table, { key: (task) => task.id, make: makeRow, fill: fillRow, height: row_height, want: (index) => this.fetch(index) });
    this.none = el("div", { hidden: true });
    this.note = el("p", { class: "soft pad note", role: "status", hidden: true });
    this.tabs = tabs("Show tasks by status", ORDER, (chosen) => this.choose({ status: chosen }));
    this.node = card(title ?? "Tasks", { class: "tasks", end: this.is_page && this.toolbar() }, this.is_page && this.tabs.node, this.note, el("div", { class: "scroll" }, this.table.node), this.none);
    if (this.is_page) scope.on("stats", (stats) => { this.counts = stats.tasks; this.tabs.show(this.counts, this.status); if (this.loaded) this.show(); });
    scope.refresh(() => (this.loaded ? this.mend() : this.begin()), { concerns: (event) => event.task && this.concerns(event), gap_ms: 1000, every_ms: 30_000 });
    this.changed = new Set();
  }

  toolbar() {
    const doubt = el("input", { type: "checkbox", checked: this.in_doubt, on: { change: () => this.choose({ in_doubt: doubt.checked }) } });
    return el("div", { class: "filters" }, el("label", { class: "check" }, doubt, "in doubt only"),
      searchBox("Agent (whole name)", (agent) => this.choose({ agent }), this.agent),
      searchBox("Find a task or step", (find) => this.choose({ find }), this.find));
  }

  choose(change) {
    Object.assign(this, change);
    const { status, agent, find, in_doubt, sort } = this;
    if (this.is_page) setFilters({ status, agent, find, in_doubt, sort: sort === NEWEST_FIRST ? null : sort });
    if (this.counts) this.tabs.show(this.counts, this.status);
    if (Object.keys(change).join() === "sort" && this.next === undefined) return this.show();
    this.begin();
  }

  get query() {
    return { status: this.status, agent: this.agent, find: this.find, in_doubt: this.in_doubt || null, newest: true };
  }

  /** How many there are, as far as it is known: counts are by status only. */
  get total() {
    if (this.next === undefined || !this.counts) return this.items.length;
    if (!this.agent && !this.find && !this.in_doubt) return this.status ? this.counts[this.status] ?? 0 : Object.values(this.counts).reduce((all, number) => all + number, 0);
    return this.items.length + FIRST; // some more
  }

  async begin() {
    this.ticket++;
    Object.assign(this, { items: [], next: null, loaded: false, fetching: false });
    this.table.node.hidden = false;
    this.none.hidden = true;
    if (!this.rows.is_begun) skeleton(this.table.body, 12, COLUMNS.length);
    const first = this.is_page ? FIRST : FIRST_OF_AGENT;
    await this.fetch(first, first);
  }

  /** Fetches until the row at `index` is there; all of them where they are sorted. */
  async fetch(index, limit = PAGE) {
    if (this.fetching || this.next === undefined) return;
    const ticket = this.ticket;
    this.fetching = true;
    try {
      do {
        const page = await get(["tasks"], { ...this.query, limit, after: this.next });
        if (ticket !== this.ticket || this.scope.ended) return;
        this.items.push(...page.items);
        this.next = page.next ?? undefined;
        this.loaded = true;
        this.show();
        limit = PAGE;
      } while (this.next !== undefined && (this.items.length < index || this.sort !== NEWEST_FIRST));
    } catch {
      // The link says that it is lost; what is here stays, and is asked for again with the next look.
    } finally {
      if (ticket === this.ticket) this.fetching = false;
    }
  }

  /** What events spoke of: rows on the screen, and new tasks. */
  concerns(event) {
    if (event.kind === "task.created") return (this.has_new = true);
    const is_shown = this.rows.shown.some((task) => task.id === event.task);
    if (is_shown) this.changed.add(event.task);
    return is_shown;
  }

  async mend() {
    const ids = this.changed.size ? [...this.changed].slice(0, MENDED_MAX) : this.rows.shown.slice(0, MENDED_MAX).map((task) => task.id);
    this.changed.clear();
    const ticket = this.ticket;
    const [fresh, newest] = await Promise.all([Promise.all(ids.map((id) => get(["tasks", id]).catch(() => null))), this.has_new ? get(["tasks"], { ...this.query, limit: FIRST }).catch(() => null) : null]);
    if (ticket !== this.ticket || this.scope.ended) return;
    this.has_new = false;
    const by_id = new Map([...fresh, ...(newest?.items ?? [])].filter(Boolean).map((task) => [task.id, task]));
    const known = new Set(this.items.map((task) => task.id));
    const added = (newest?.items ?? []).filter((task) => !known.has(task.id));
    this.items = [...added, ...this.items.map((task) => by_id.get(task.id) ?? task)];
    this.show();
  }

  show() {
    const sorted = this.sort === NEWEST_FIRST ? this.items : this.items.toSorted(comparison(SORT, this.sort, SORT.id));
    this.rows.show(sorted, this.total);
    const is_empty = !this.items.length && this.next === undefined;
    this.table.node.hidden = is_empty;
    this.none.hidden = !is_empty;
    if (is_empty) replace(this.none, this.nothing());
    this.note.hidden = this.sort === NEWEST_FIRST || this.next === undefined;
    setText(this.note, `Sorting needs all tasks: ${count(this.items.length)} of ${count(this.total)} are here.`);
    performance.mark("relight-tasks"); // what the test of 100,000 tasks waits for
  }

  nothing() {
    if (!this.is_page) return empty("It has had no task yet.");
    if (this.status || this.agent || this.find || this.in_doubt) return empty("No task matches.");
    return empty("No tasks yet. Add one:", "relight task add first --title 'My first task' --step plan --step write", "Agents may also start their own: relight task start ID.");
  }
}

function makeRow(task) {
  return el("tr", { data: { task: task.id } },
    el("td", {}, subjectLink("task", task.id, { class: "agent-text name" }), el("small", { class: "agent-text" })),
    el("td", {}, chip(TASK_STATUSES, task.status), el("small", { class: "agent-text" })),
    el("td", {}, el("progress"), el("small", { class: "tabular" })),
    el("td", { class: "agent-text" }), el("td", {}, el("span", { class: "agent-text" }), el("small")),
    el("td", { class: "tabular", data: { label: "cost" } }), el("td", {}, time(task.updated_at)));
}

function fillRow(row, task) {
  const [name, status, steps, agent, holder, cost, updated] = row.children;
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
  setText(cost, Number(task.cost) ? task.cost : "–");
  cost.classList.toggle("blank", !Number(task.cost));
  setTime(updated.firstChild, task.updated_at);
}

function fillSteps(cell, task) {
  const [bar, text] = cell.children;
  const { done, all } = stepCounts(task);
  setAttribute(bar, "max", Math.max(1, all));
  setAttribute(bar, "value", done);
  setAttribute(bar, "aria-label", `${done} of ${all} steps done`);
  bar.className = task.status === "failed" ? "bad-bar" : task.status === "cancelled" ? "calm-bar" : "";
  bar.hidden = all === 0;
  const open = task.steps_in_doubt ? `, ${task.steps_in_doubt} ${isWorkedOn(task) ? "begun" : "in doubt"}` : "";
  setText(text, all ? `${done} of ${all}${open}` : "–");
  cell.classList.toggle("blank", !all);
  text.classList.toggle("doubt", task.steps_in_doubt > 0 && !isWorkedOn(task));
}
