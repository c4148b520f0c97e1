// All events: filtered, live, and held still on demand.
import { get } from "./api.js";
import { el, replace, setAttribute, setText } from "./dom.js";
import { journal } from "./journal.js";
import { sayError } from "./notice.js";
import { button, card, empty, searchBox, select } from "./parts.js";
import { KINDS } from "./words.js";

export const title = "Events";

const PAGE = 100;
const KEPT_MAX = 600;

export function mount(root, scope) {
  root.append(new Events(scope).node);
}

class Events {
  filter = { kind: "", agent: "", task: "" };
  events = [];
  waiting = [];
  paused = false;
  older = null;

  constructor(scope) {
    this.scope = scope;
    this.table = journal(14);
    this.none = el("div", { hidden: true });
    this.pause = button("Pause", () => this.toggle(), { icon: "pause", "aria-pressed": "false", data: { pause: "" } });
    this.more = button("Older events", () => this.loadOlder(), { class: "quiet more", hidden: true });
    this.node = card("Events", { end: this.toolbar() }, el("div", { class: "scroll" }, this.table.node), this.none, this.more);
    scope.on("events", (events) => this.take(events));
    scope.on("refetch", () => this.load());
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
    await this.fetch(null, (items) => items);
  }

  async loadOlder() {
    await this.fetch(this.older, (items) => [...this.events, ...items]);
  }

  async fetch(after, join) {
    try {
      const page = await get(["events"], { ...this.filter, newest: true, limit: PAGE, after });
      this.events = join(page.items);
      this.older = page.next;
      if (!this.scope.ended) this.show();
    } catch (error) {
      if (error.status) sayError(error);
    }
  }

  take(fresh) {
    const matching = fresh.filter((event) => Object.entries(this.filter).every(([name, value]) => !value || event[name] === value));
    this.waiting.push(...matching);
    if (this.waiting.length > KEPT_MAX) this.waiting.splice(0, this.waiting.length - KEPT_MAX);
    if (this.paused) this.showPause();
    else this.merge();
  }

  // What went past the limit is not lost: "older events" begins where the list ends.
  merge() {
    if (!this.waiting.length) return;
    const known = new Set(this.events.map((event) => event.id));
    const fresh = this.waiting.filter((event) => !known.has(event.id)).sort((a, b) => b.id - a.id);
    this.waiting = [];
    this.events = [...fresh, ...this.events].slice(0, Math.max(KEPT_MAX, PAGE));
    this.show();
  }

  toggle() {
    this.paused = !this.paused;
    if (!this.paused) this.merge();
    this.showPause();
  }

  showPause() {
    setAttribute(this.pause, "aria-pressed", String(this.paused));
    setText(this.pause.lastChild, this.paused ? `Go on (${this.waiting.length} new)` : "Pause");
  }

  show() {
    this.table.show(this.events);
    this.table.node.hidden = !this.events.length;
    this.none.hidden = this.events.length > 0;
    const filtered = Object.values(this.filter).some(Boolean);
    if (!this.events.length) replace(this.none, filtered ? empty("No event matches.") : empty("Nothing has happened yet. Begin a task:", "relight task add first --step plan --step write"));
    this.more.hidden = !this.older;
  }
}
