// All events: filtered, live, held still on demand, and back in time a page at a time.
import { eventsBefore, newestEvents } from "./api.js";
import { calm } from "./calm.js";
import { el, replace, setAttribute, setText } from "./dom.js";
import { journal } from "./journal.js";
import { sayError } from "./notice.js";
import { full } from "./clock.js";
import { button, card, empty, pager, searchBox, select } from "./parts.js";
import { filters, setFilters } from "./route.js";
import { KINDS } from "./words.js";

export const title = "Events";

const PAGE = 100;
const WAITING_MAX = 1000; // kept while the list is held still
const MERGE_MS = 400; // in a storm: so often, and only what fits

export function mount(root, scope) {
  root.append(new Events(scope).node);
}

class Events {
  filter = { kind: "", agent: "", task: "", ...Object.fromEntries(Object.entries(filters()).filter(([name]) => ["kind", "agent", "task"].includes(name))) };
  events = [];
  waiting = [];
  paused = false;
  page = 0; // 0 is live; the others stand still
  cursors = [null]; // before which event each page ends

  constructor(scope) {
    this.scope = scope;
    this.table = journal(14);
    this.none = el("div", { hidden: true });
    this.pause = button("Pause", () => this.toggle(), { icon: "pause", "aria-pressed": "false", data: { pause: "" } });
    this.pager = pager((by) => this.turn(by), "Newer", "Older");
    this.node = card("Events", { end: this.toolbar() }, el("div", { class: "scroll" }, this.table.node), this.none, this.pager.node);
    scope.on("events", (events) => this.take(events));
    scope.on("refetch", () => this.page || this.load());
    this.mergeSoon = calm(() => this.paused || this.merge(), MERGE_MS);
    this.load();
  }

  toolbar() {
    const { kind, agent, task } = this.filter;
    const set = (name) => (value) => { this.filter[name] = value; setFilters({ [name]: value }); [this.page, this.cursors] = [0, [null]]; this.load(); };
    return el("div", { class: "filters" }, this.pause,
      select("Kind", [["", "every kind"], ...KINDS.toSorted().map((kind) => [kind, kind])], set("kind"), kind),
      searchBox("Agent (whole name)", set("agent"), agent), searchBox("Task (whole id)", set("task"), task));
  }

  async load() {
    const asked = JSON.stringify([this.filter, this.page]);
    const before = this.cursors[this.page];
    this.asked = asked;
    this.waiting = [];
    try {
      const events = before ? await eventsBefore(this.filter, PAGE, before) : await newestEvents(this.filter, PAGE);
      if (this.scope.ended || this.asked !== asked) return;
      this.events = events;
      this.more_there = events.length === PAGE;
      this.show();
      this.showPause();
    } catch (error) {
      if (error.status) sayError(error);
    }
  }

  async turn(by) {
    if (by > 0) this.cursors[this.page + 1] = this.events.at(-1).id;
    this.page += by;
    await this.load();
    this.node.scrollIntoView({ block: "start" });
  }

  take(fresh) {
    const matching = fresh.filter((event) => Object.entries(this.filter).every(([name, value]) => !value || event[name] === value));
    if (this.page) return; // the newest are fetched when somebody goes back to them
    this.waiting = [...this.waiting, ...matching].slice(-WAITING_MAX);
    if (this.paused) this.showPause();
    else this.mergeSoon();
  }

  merge() {
    if (!this.waiting.length) return;
    const known = new Set(this.events.map((event) => event.id));
    const fresh = this.waiting.filter((event) => !known.has(event.id)).sort((a, b) => b.id - a.id);
    this.waiting = [];
    this.more_there ||= fresh.length + this.events.length > PAGE;
    this.events = [...fresh, ...this.events].slice(0, PAGE);
    this.show();
  }

  toggle() {
    this.paused = !this.paused;
    if (!this.paused) this.merge();
    this.showPause();
  }

  showPause() {
    this.pause.disabled = this.page > 0;
    setAttribute(this.pause, "aria-pressed", String(this.paused));
    setText(this.pause.lastChild, this.paused ? `Continue (${this.waiting.length}${this.waiting.length === WAITING_MAX ? " or more" : ""} new)` : "Pause");
  }

  show() {
    this.table.show(this.events);
    this.table.node.hidden = !this.events.length;
    this.none.hidden = this.events.length > 0;
    const filtered = Object.values(this.filter).some(Boolean);
    if (!this.events.length) replace(this.none, filtered ? empty("No event matches.") : empty("Nothing has happened yet. Begin a task:", "relight task add first --step plan --step write"));
    this.pager.show(this.page && this.events.length ? `until ${full(this.events[0].at)}` : "the newest", this.page > 0, this.more_there);
  }
}
