// All events: filtered, live, and held still on demand.
import { newestEvents } from "./api.js";
import { calm } from "./calm.js";
import { el, replace, setAttribute, setText } from "./dom.js";
import { journal } from "./journal.js";
import { sayError } from "./notice.js";
import { button, card, empty, searchBox, select } from "./parts.js";
import { KINDS } from "./words.js";

export const title = "Events";

const LIMIT_FIRST = 100;
const LIMIT_MAX = 1000; // the most that the daemon gives at once
const MERGE_MS = 400; // in a storm: so often, and only what fits

export function mount(root, scope) {
  root.append(new Events(scope).node);
}

class Events {
  filter = { kind: "", agent: "", task: "" };
  events = [];
  waiting = [];
  paused = false;
  limit = LIMIT_FIRST;

  constructor(scope) {
    this.scope = scope;
    this.table = journal(14);
    this.none = el("div", { hidden: true });
    this.pause = button("Pause", () => this.toggle(), { icon: "pause", "aria-pressed": "false", data: { pause: "" } });
    this.more = button("Older events", () => this.loadOlder(), { class: "quiet more", hidden: true });
    this.rest = el("div", { hidden: true }, empty("Older ones:", "relight events --all"));
    this.node = card("Events", { end: this.toolbar() }, el("div", { class: "scroll" }, this.table.node), this.none, this.more, this.rest);
    scope.on("events", (events) => this.take(events));
    scope.on("refetch", () => this.load());
    this.mergeSoon = calm(() => this.paused || this.merge(), MERGE_MS);
    this.load();
  }

  toolbar() {
    const set = (name) => (value) => { this.filter[name] = value; this.load(); };
    return el("div", { class: "filters" }, this.pause,
      select("Kind", [["", "every kind"], ...KINDS.toSorted().map((kind) => [kind, kind])], set("kind")),
      searchBox("Agent (whole name)", set("agent")), searchBox("Task (whole id)", set("task")));
  }

  async load() {
    this.waiting = [];
    try {
      this.events = await newestEvents(this.filter, this.limit);
      this.more_there = this.events.length === this.limit;
      if (!this.scope.ended) this.show();
    } catch (error) {
      if (error.status) sayError(error);
    }
  }

  loadOlder() {
    this.limit = Math.min(LIMIT_MAX, this.limit * 3);
    this.load();
  }

  take(fresh) {
    const matching = fresh.filter((event) => Object.entries(this.filter).every(([name, value]) => !value || event[name] === value));
    this.waiting = [...this.waiting, ...matching].slice(-LIMIT_MAX);
    if (this.paused) this.showPause();
    else this.mergeSoon();
  }

  merge() {
    if (!this.waiting.length) return;
    const known = new Set(this.events.map((event) => event.id));
    const fresh = this.waiting.filter((event) => !known.has(event.id)).sort((a, b) => b.id - a.id);
    this.waiting = [];
    this.more_there ||= fresh.length + this.events.length > this.limit;
    this.events = [...fresh, ...this.events].slice(0, this.limit);
    this.show();
  }

  toggle() {
    this.paused = !this.paused;
    if (!this.paused) this.merge();
    this.showPause();
  }

  showPause() {
    setAttribute(this.pause, "aria-pressed", String(this.paused));
    setText(this.pause.lastChild, this.paused ? `Go on (${this.waiting.length}${this.waiting.length === LIMIT_MAX ? " or more" : ""} new)` : "Pause");
  }

  show() {
    this.table.show(this.events);
    this.table.node.hidden = !this.events.length;
    this.none.hidden = this.events.length > 0;
    const filtered = Object.values(this.filter).some(Boolean);
    if (!this.events.length) replace(this.none, filtered ? empty("No event matches.") : empty("Nothing has happened yet. Begin a task:", "relight task add first --step plan --step write"));
    this.more.hidden = !this.more_there || this.limit === LIMIT_MAX;
    this.rest.hidden = !this.more_there || this.limit < LIMIT_MAX;
  }
}
