// The table of agents. Few agents: all are here, sorted and searched in place. Many: a page at a time,
// and the rest is fetched only when somebody sorts or searches.
import { agentButton, agentVerbs } from "./verbs.js";
import { get, getAll } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, replace, setAttribute, setText, skeleton } from "./dom.js";
import { card, chip, comparison, empty, pager, searchBox, setChip, sortHeads, subjectLink, table, tabs } from "./parts.js";
import { filters, setFilters } from "./route.js";
import { count, ending, words } from "./text.js";
import { AGENT_LOOKS, CAUSES, agentLook } from "./words.js";

const PAGE = 20;
export const FEW = 80; // so many are always fetched whole
const LOOK_MS_MANY = 15_000; // how often a long list is fetched whole
const MENDED_MAX = 8;
const AGENTS_MAX = 20_000;
const COLUMNS = [["name", "Agent"], ["state", "State"], ["attempt", "Attempt"], ["last_sign_at", "Last sign"],
  ["task", "Working on"], ["last_death", "Last end"]];
const ORDER = ["terminated", "crashed", "suspended", "running", "idle", "created", "stopped"];
const REST = ["idle", "stopped"]; // one state for the daemon, which does not count them apart
const at = (iso) => (iso ? Date.parse(iso) : null);
const SORT = {
  __proto__: null,
  name: (agent) => agent.name, state: (agent) => ORDER.indexOf(agentLook(agent)), attempt: (agent) => agent.attempt || null,
  last_sign_at: (agent) => at(agent.last_sign_at), task: (agent) => agent.task, last_death: (agent) => at(agent.last_death?.at),
};

export const title = "Agents";

export function mount(root, scope) {
  root.append(agentsCard(scope));
}

/** `only` shows those for which it is true; `told` gets all agents each time that all were fetched. */
export function agentsCard(scope, { title = "Agents", only = null, told = null } = {}) {
  return new AgentTable(scope, title, only, told).node;
}

class AgentTable {
  state = "";
  search = "";
  sort = "name";
  page = 0;
  cursors = [null]; // where each page of the daemon's list begins
  agents = null; // those of this page, or all when `all_here`
  all_here = false;
  has_every = false; // those of every state
  idle = null; // how many of those that the daemon counts as stopped
  asked = 0;
  shown = [];
  changed = new Set(); // names of shown agents that events spoke of

  constructor(scope, title, only, told) {
    const { state, find, sort } = filters();
    Object.assign(this, { only, told, state: state in AGENT_LOOKS ? state : "", search: find?.toLowerCase() ?? "", sort: sort?.replace("-", "") in SORT ? sort : "name" });
    this.tabs = tabs("Show agents by state", Object.keys(AGENT_LOOKS), (state) => this.choose(state));
    this.table = table("Agents", sortHeads([...COLUMNS, [null, "Actions", true]], this.sort, (sort) => this.sortBy(sort), ["attempt", "last_sign_at", "last_death"]), 10);
    this.pager = pager((by) => this.turn(by));
    this.none = el("div", { hidden: true });
    const search = searchBox("Find an agent", (text) => this.find(text), find);
    this.node = card(title, { class: "area-agents", end: search }, this.tabs.node,
      el("div", { class: "scroll" }, this.table.node), this.none, this.pager.node);
    scope.on("stats", (stats) => this.takeCounts(stats.agents));
    scope.refresh(() => (this.isFresh() ? this.mend() : this.load()), { concerns: (event) => this.concerns(event), gap_ms: 900, every_ms: 5000 });
  }

  takeCounts(counts) {
    const rest = this.counts?.stopped;
    this.counts = counts;
    this.showCounts();
    if (!this.agents || this.has_every) return;
    if (this.few) this.load();
    else if (counts.stopped !== rest) this.countIdle();
  }

  get few() {
    return Boolean(this.counts) && total(this.counts) <= FEW;
  }

  async countIdle() {
    this.idle = null;
    if (!this.counts.stopped || this.counts.stopped > FEW) return this.showCounts();
    const rest = await get(["agents"], { state: "stopped", limit: FEW }).catch(() => null);
    if (rest) this.idle = rest.items.filter((agent) => agent.idle).length;
    this.showCounts();
  }

  /** By what they look like; null where the daemon's counts do not tell. */
  looks() {
    if (this.has_every) return Object.fromEntries(Object.keys(AGENT_LOOKS).map((look) => [look, this.agents.filter((agent) => agentLook(agent) === look && this.isMeant(agent)).length]));
    const idle = this.counts.stopped ? this.idle : 0;
    return { ...this.counts, idle, stopped: idle === null ? null : (this.counts.stopped ?? 0) - idle };
  }

  showCounts() {
    if (this.counts || this.has_every) this.tabs.show(this.looks(), this.state, this.has_every ? undefined : total(this.counts));
    this.showPager();
  }

  isMeant(agent) {
    return !this.only || this.only(agent);
  }

  isFresh() {
    return this.all_here && this.agents.length > FEW && Date.now() - this.loaded_at < LOOK_MS_MANY;
  }

  /** Others than those shown come with the next look. */
  concerns(event) {
    const agent = this.shown.find((one) => one.name === event.agent || (event.task && one.task === event.task));
    if (agent) this.changed.add(agent.name);
    return Boolean(agent) || event.kind === "agent.created";
  }

  /** In a long list only rows that changed are fetched. */
  async mend() {
    const names = [...this.changed].slice(0, MENDED_MAX);
    this.changed.clear();
    const fresh = await Promise.all(names.map((name) => get(["agents", name]).catch(() => null)));
    const by_name = new Map(fresh.filter(Boolean).map((agent) => [agent.name, agent]));
    if (!this.agents) return; // another state was chosen meanwhile
    this.agents = this.agents.map((agent) => by_name.get(agent.name) ?? agent);
    this.show();
  }

  async sortBy(sort) {
    this.sort = sort;
    this.page = 0;
    setFilters({ sort: sort === "name" ? null : sort });
    await this.load();
  }

  async find(text) {
    this.search = text.toLowerCase();
    this.page = 0;
    setFilters({ find: text });
    await this.load();
  }

  async choose(state) {
    Object.assign(this, { state, page: 0, cursors: [null] });
    setFilters({ state });
    this.showCounts();
    if (this.has_every) return this.show();
    Object.assign(this, { agents: null, all_here: false });
    this.table.node.hidden = false;
    this.none.hidden = true;
    skeleton(this.table.body, 10, COLUMNS.length + 1);
    await this.load();
  }

  async turn(by) {
    const next = this.page + by;
    const is_known = this.all_here || this.cursors[next] !== undefined;
    if (next < 0 || !is_known) return;
    this.page = next;
    await this.load();
    this.node.scrollIntoView({ block: "start" });
  }

  /** Sorting and searching need all agents; else one page is enough. */
  async load() {
    const ticket = ++this.asked;
    const is_rest = REST.includes(this.state);
    const query = { state: this.few ? "" : is_rest ? "stopped" : this.state };
    const needs_all = this.few || is_rest || this.search || this.only || this.sort !== "name";
    try {
      const page = needs_all ? await getAll(["agents"], query, AGENTS_MAX)
        : await get(["agents"], { ...query, limit: PAGE, after: this.cursors[this.page] });
      if (ticket === this.asked) this.take(page, query.state, needs_all);
    } catch {
      // The link says that it is lost; old rows stay until it is back.
    }
  }

  take({ items, next }, state, is_all) {
    this.agents = items;
    this.loaded_at = Date.now();
    this.all_here = Boolean(is_all) || (this.page === 0 && !next);
    this.has_every = this.all_here && !state;
    this.more = Boolean(next);
    if (next) this.cursors[this.page + 1] = next;
    if (this.all_here && state === "stopped") this.idle = items.filter((agent) => agent.idle).length;
    if (this.has_every) this.told?.(items);
    this.show();
    this.showCounts();
  }

  show() {
    const found = this.agents.filter((agent) => this.isMeant(agent) && (!this.state || agentLook(agent) === this.state) && (!this.search || matches(agent, this.search)));
    const sorted = found.toSorted(comparison(SORT, this.sort, SORT.name));
    this.found = sorted.length;
    const rows = this.all_here ? sorted.slice(this.page * PAGE, (this.page + 1) * PAGE) : sorted;
    this.shown = rows;
    keyed(this.table.body, rows, (agent) => agent.name, makeRow, fillRow);
    this.table.node.hidden = rows.length === 0;
    this.none.hidden = rows.length > 0;
    if (!rows.length) replace(this.none, this.nothing());
    this.showPager();
    performance.mark("relight-usable"); // what the bench waits for
  }

  nothing() {
    if (this.search) return empty(`No agent matches “${this.search}”.`);
    if (this.only) return empty("No agent is here.");
    if (this.state) return empty(`No agent is ${words(this.state)}.`);
    return empty("No agents yet. Let one be supervised:", "relight run --name writer -- ./agents/writer.sh", "Or list agents in relight.toml and start the daemon again with relight up.");
  }

  showPager() {
    if (!this.agents || !this.counts) return;
    const all = this.all_here ? this.found : this.state ? this.counts[this.state] ?? 0 : total(this.counts);
    const last = Math.min((this.page + 1) * PAGE, all);
    const has_on = this.all_here ? (this.page + 1) * PAGE < all : this.more;
    this.pager.show(`${count(Math.min(this.page * PAGE + 1, all))}–${count(last)} of ${count(all)}`, this.page > 0, has_on);
  }
}

const total = (counts) => Object.values(counts).reduce((all, number) => all + number, 0);

const matches = (agent, text) => [agent.name, agent.task, agent.step, agent.status_text, agent.why, agent.node, agent.pool].some((part) => part?.toLowerCase().includes(text));

function makeRow(agent) {
  const cell = (name, ...children) => el("td", { class: `col-${name}` }, ...children);
  const small = () => el("small", { class: "agent-text" });
  return el("tr", { data: { agent: agent.name } },
    cell("name", subjectLink("agent", agent.name, { class: "agent-text name" }), el("span", { class: "place" }), small()),
    cell("state", chip(AGENT_LOOKS, agentLook(agent)), small()),
    cell("attempt", el("span", { class: "tabular" }), small()),
    cell("last_sign_at", time(agent.last_sign_at), small()),
    cell("task", el("span", { class: "agent-text" }), small()),
    cell("last_death", el("span"), el("small")),
    cell("actions", el("div", { class: "row-actions" })));
}

function fillRow(row, agent) {
  const [name, state, attempt, sign, task, death, actions] = row.children;
  setText(name.children[1], agent.node ? `on ${agent.node}` : "");
  setText(name.lastChild, agent.status_text ?? (agent.command ?? []).join(" "));
  setChip(state.firstChild, AGENT_LOOKS, agentLook(agent));
  fillPhase(state.lastChild, agent);
  setText(attempt.firstChild, agent.attempt ? `#${agent.attempt}` : "–");
  setText(attempt.lastChild, agent.recoveries_in_a_row ? `${agent.recoveries_in_a_row} of ${agent.max_attempts}` : "");
  setAttribute(attempt.lastChild, "title", "recoveries in a row, and how many it may have");
  setTime(sign.firstChild, agent.last_sign_at);
  const beside = agent.self_reporting ? "reports by itself" : agent.pid ? `pid ${agent.pid}` : "";
  setText(sign.lastChild, beside);
  sign.firstChild.hidden = !agent.last_sign_at && beside !== "";
  sign.classList.toggle("blank", !agent.last_sign_at && !beside);
  fillTask(task, agent);
  fillDeath(death, agent.last_death);
  fillActions(actions.firstChild, agent);
}

/** Beside the state: when it comes back, until when it waits, or why it is so. */
function fillPhase(small, agent) {
  const until = agent.again_at && agent.state === "crashed" ? ["again ", agent.again_at, "in"] : agent.phase === "waiting" ? ["waiting, ", agent.waiting_until, "left"]
    : agent.state === "running" ? [`${agent.phase ?? "alive"} `, agent.attempt_begun_at, "for"] : [agent.idle ? "waits for a task" : agent.why ?? "", null, "for"];
  if (small.childNodes.length !== 2) replace(small, el("span"), el("time"));
  setText(small.firstChild, until[0]);
  setAttribute(small, "title", agent.why);
  setTime(small.lastChild, until[1], until[2]);
  small.lastChild.hidden = !until[1];
}

function fillTask(cell, agent) {
  const [place, step] = cell.children;
  if (cell.dataset.task !== (agent.task ?? "")) {
    cell.dataset.task = agent.task ?? "";
    replace(place, agent.task ? subjectLink("task", agent.task) : "–");
  }
  cell.classList.toggle("blank", !agent.task);
  setText(step, agent.task && agent.step ? `step ${agent.step}` : "");
}

function fillDeath(cell, death) {
  const [place, small] = cell.children;
  cell.classList.toggle("blank", !death);
  if (!death) return setText(place, "–");
  if (!place.classList.contains("chip")) replace(small, el("time"), el("span"));
  setChip(place, CAUSES, death.cause);
  setTime(small.firstChild, death.at);
  setText(small.lastChild, ending(death) ? `, ${ending(death)}` : "");
}

function fillActions(box, agent) {
  const verbs = agentVerbs(agent);
  box.agent = agent;
  if (box.dataset.verbs === verbs.join()) return;
  box.dataset.verbs = verbs.join();
  replace(box, ...verbs.map((verb) => agentButton(() => box.agent, verb)));
}
