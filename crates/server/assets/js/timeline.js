// The timeline: who lived when, who died of what, and who came back. Zoom by buttons, keys or wheel.
import { getAll } from "./api.js";
import { full, now } from "./clock.js";
import { el, keyed, replace, setAttribute, setText } from "./dom.js";
import { Lanes, addEvent, deathText, listed, toLanes } from "./lanes.js";
import { button, card, empty, pager, searchBox, subjectLink } from "./parts.js";
import { restOf } from "./rest.js";
import { filters, setFilters } from "./route.js";
import { duration } from "./text.js";
import { CAUSES, isCrash } from "./words.js";

export const title = "Timeline";

const HOUR_MS = 3_600_000;
const SPANS = [["5 min", HOUR_MS / 12], ["1 h", HOUR_MS], ["6 h", 6 * HOUR_MS], ["24 h", 24 * HOUR_MS], ["7 d", 168 * HOUR_MS], ["30 d", 720 * HOUR_MS]];
const SPAN_MS_MIN = 10_000;
const SPAN_MS_LEAST = 300_000; // what is shown at first
const SPAN_MS_MAX = 720 * HOUR_MS;
const ATTEMPTS_MAX = 5000;
const ATTEMPTS_PAGE = 1000; // the most that the daemon gives at once
const PAGE = 40;
const ROWS_MAX = 200;
const MARK_WIDTH = 14; // the half of a wide one

export function mount(root, scope) {
  root.append(new Timeline(scope).node);
}

/** The timeline of one agent, as a card. */
export function timelineCard(scope, agent) {
  return new Timeline(scope, agent).node;
}

class Timeline {
  span = SPAN_MS_MAX; // until it is known what there is
  end = null; // null follows the present
  search = "";
  only_crashed = false;
  page = 0;
  lanes = null;
  rest = new Map(); // by agent, of those whose last attempt crashed

  constructor(scope, agent = null) {
    this.agent = agent;
    const { span, end, find, crashed } = agent ? {} : filters();
    const asked = SPANS.find(([label]) => label.replace(" ", "") === span)?.[1] ?? (Number(span) || null);
    Object.assign(this, { asked_span: asked && Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, asked)), end: Date.parse(end) || null, search: find?.toLowerCase() ?? "", only_crashed: crashed === "true" });
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Timeline of attempts. Plus and minus zoom, arrows move, Home goes to the present. The table below says the same." });
    this.names = el("div", { class: "lane-names" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.none = el("div", { hidden: true });
    this.note = el("p", { class: "soft pad", hidden: true, text: "There are more attempts in this time; only the newest are drawn." });
    this.spans = SPANS.map(([label, span]) => button(label, () => this.zoomTo(span, null), { data: { span } }));
    this.range = el("span", { class: "soft tabular" });
    this.rows = el("tbody");
    this.pager = pager((by) => { this.page += by; this.show(); });
    this.field = el("div", { class: agent ? "lanes single" : "lanes" }, !agent && this.names, el("div", { class: "lane-field" }, this.canvas, this.tip));
    this.node = card(agent ? "Timeline" : "Attempts, deaths and recoveries", { end: this.toolbar(find) }, !agent && legend(), this.field, this.none, this.note, this.pager.node, this.alternative());
    this.drawing = new Lanes(this.canvas);
    this.listen(scope);
    this.load = scope.refresh(() => this.fetch(), { concerns: () => false, gap_ms: 1200 });
    scope.on("events", (events) => this.take(events.filter((event) => (event.kind === "agent.state" || event.kind.startsWith("attempt.")) && (!agent || event.agent === agent))));
    scope.every(2000, () => this.draw());
  }

  toolbar(find = "") {
    const keep = () => { this.page = 0; setFilters({ crashed: this.only_crashed, find: this.search }); this.show(); };
    const crashed = el("input", { type: "checkbox", checked: this.only_crashed, on: { change: () => { this.only_crashed = crashed.checked; keep(); } } });
    return el("div", { class: "filters" }, this.range, el("div", { class: "group", role: "group", "aria-label": "Time shown" }, button("Fit", () => this.zoomTo(this.fit ?? HOUR_MS, null)), ...this.spans),
      el("div", { class: "zoom", role: "group", "aria-label": "Zoom" }, button("−", () => this.zoom(2), { "aria-label": "Zoom out" }), button("+", () => this.zoom(0.5), { "aria-label": "Zoom in" })),
      ...(this.agent ? [] : [el("label", { class: "check" }, crashed, "only crashed"), searchBox("Find an agent", (text) => { this.search = text.toLowerCase(); keep(); }, find)]));
  }

  alternative() {
    const head = ["Agent", "Ended", "What"].map((text) => el("th", { scope: "col", text }));
    return el("details", { class: "as-table pad", on: { toggle: () => this.fillTable() } }, el("summary", { text: "As a table" }),
      el("div", {}, el("table", {}, el("caption", { class: "unseen", text: "Deaths in the time shown" }), el("thead", {}, el("tr", {}, ...head)), this.rows)));
  }

  listen(scope) {
    scope.listen(this.canvas, "wheel", (event) => this.wheel(event), { passive: false });
    scope.listen(this.canvas, "keydown", (event) => this.key(event));
    scope.listen(this.canvas, "pointerdown", (event) => this.grab(event));
    scope.listen(this.canvas, "pointermove", (event) => this.hover(event));
    scope.listen(this.canvas, "pointerleave", () => { this.tip.hidden = true; });
    scope.listen(window, "resize", () => this.draw());
    scope.listen(window, "relight-theme", () => { this.drawing.readColours(); this.draw(); });
    scope.listen(matchMedia("(prefers-color-scheme: dark)"), "change", () => { this.drawing.readColours(); this.draw(); });
  }

  // -- data --------------------------------------------------------------------------------------------

  // Beyond the present, so that a mark at its edge is whole.
  get to() { return this.end ?? now() + this.span * this.margin; }
  get margin() { return Math.max(0.02, MARK_WIDTH / (this.canvas.clientWidth || 600)); }
  get from() { return this.to - this.span; }

  async fetch() {
    const from = this.from - this.span * 0.1;
    const page = await getAll(["attempts"], { agent: this.agent, since: new Date(from).toISOString() }, ATTEMPTS_MAX).catch(() => null);
    if (!page) return;
    this.lanes = toLanes(page.items);
    this.fit = fitting(page.items, this.margin);
    if (!this.loaded_from) this.span = this.asked_span ?? this.fit;
    this.loaded_from = from;
    this.note.hidden = !page.more && page.items.length !== ATTEMPTS_PAGE;
    this.show();
  }

  take(events) {
    if (!this.lanes || !events.length) return;
    for (const event of events) {
      this.rest.delete(event.agent);
      if (event.kind !== "agent.state") addEvent(this.lanes, event);
    }
    this.show();
  }

  show() {
    if (!this.lanes) return;
    const found = listed(this.lanes).filter((lane) => lane.agent.toLowerCase().includes(this.search) && (!this.only_crashed || this.crashed(lane)));
    this.page = Math.min(this.page, Math.max(0, Math.ceil(found.length / PAGE) - 1));
    this.shown = found.slice(this.page * PAGE, (this.page + 1) * PAGE);
    for (const lane of this.shown) lane.rest = this.rest.get(lane.agent);
    this.lookForRest();
    keyed(this.names, this.shown, (lane) => lane.agent, (lane) => subjectLink("agent", lane.agent, { class: "agent-text", title: lane.agent }), () => {});
    this.field.hidden = found.length === 0;
    this.none.hidden = found.length > 0;
    if (!found.length) replace(this.none, this.lanes.size ? empty("No agent matches.") : empty("Nothing lived in this time. Start an agent:", "relight run -- ./agent.sh"));
    this.pager.show(`${this.page * PAGE + 1}–${this.page * PAGE + this.shown.length} of ${found.length} agents`, this.page > 0, (this.page + 1) * PAGE < found.length);
    this.draw();
    this.fillTable();
  }

  /** An agent that crashed and did not begin again may be at rest. */
  async lookForRest() {
    const away = this.shown.filter(({ agent, attempts }) => attempts.at(-1)?.ended && isCrash(attempts.at(-1).cause) && !this.rest.has(agent));
    if (!away.length) return;
    for (const { agent } of away) this.rest.set(agent, undefined);
    await Promise.all(away.map(async ({ agent }) => this.rest.set(agent, await restOf(agent))));
    this.show();
  }

  crashed(lane) {
    return lane.attempts.some((one) => one.ended > this.from && one.ended < this.to && isCrash(one.cause));
  }

  draw() {
    if (!this.shown || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.drawing.draw(this.shown, this.from, this.to);
      setText(this.range, this.end === null ? (SPANS.some(([, span]) => span === this.span) ? "" : `last ${duration(this.span)}`) : `${duration(this.span)} until ${full(this.end)}`);
      for (const one of this.spans) setAttribute(one, "aria-pressed", String(Number(one.dataset.span) === this.span && this.end === null));
    });
  }

  fillTable() {
    if (!this.rows.closest("details").open || !this.shown) return;
    const deaths = this.shown.flatMap((lane) => lane.attempts.filter((one) => one.ended > this.from && one.ended < this.to).map((death) => ({ lane, death })));
    deaths.sort((a, b) => b.death.ended - a.death.ended);
    keyed(this.rows, deaths.slice(0, ROWS_MAX), ({ lane, death }) => `${lane.agent} ${death.number}`,
      () => el("tr", {}, el("td", { class: "agent-text" }), el("td"), el("td")), (row, { lane, death }) => {
        setText(row.children[0], lane.agent);
        setText(row.children[1], full(death.ended));
        setText(row.children[2], deathText(lane, death));
      });
  }

  // -- moving ------------------------------------------------------------------------------------------

  zoomTo(span, end) {
    this.span = Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, span));
    this.end = end !== null && end < now() ? end : null;
    if (this.from < this.loaded_from) this.load();
    if (!this.agent) setFilters({ span: SPANS.find(([, one]) => one === this.span)?.[0].replace(" ", "") ?? Math.round(this.span), end: this.end && new Date(this.end).toISOString() });
    this.draw();
    this.fillTable();
  }

  /** The time at `x` (the right edge when not given) stays where it is. */
  zoom(factor, x = this.canvas.clientWidth) {
    const part = x / this.canvas.clientWidth;
    const fixed = this.from + part * this.span;
    const span = Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_MIN, this.span * factor));
    this.zoomTo(span, this.end === null && part > 0.9 ? null : fixed + (1 - part) * span);
  }

  move(ms) {
    this.zoomTo(this.span, this.to + ms);
  }

  // Without Ctrl the wheel scrolls the page, as everywhere.
  wheel(event) {
    if (event.ctrlKey || event.metaKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(((event.deltaX || event.deltaY) / this.canvas.clientWidth) * this.span);
    else return;
    event.preventDefault();
  }

  key(event) {
    const act = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.move(-this.span / 5),
      ArrowRight: () => this.move(this.span / 5), Home: () => this.zoomTo(this.span, null) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  grab(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.grabbed = { x: event.clientX, to: this.to };
    this.canvas.addEventListener("pointerup", () => { this.grabbed = null; }, { once: true });
  }

  hover(event) {
    if (this.grabbed && event.buttons) {
      return this.zoomTo(this.span, this.grabbed.to - ((event.clientX - this.grabbed.x) / this.canvas.clientWidth) * this.span);
    }
    const lines = this.drawing.tell(event.offsetX, event.offsetY);
    this.tip.hidden = !lines;
    if (!lines) return;
    replace(this.tip, ...lines.map((text, index) => el(index ? "div" : "b", { class: "agent-text", text })));
    this.tip.style.setProperty("left", `${Math.max(0, Math.min(event.offsetX + 12, this.canvas.clientWidth - 300))}px`);
    this.tip.style.setProperty("top", `${event.offsetY + 16}px`);
  }
}

/** As long as what there is with a margin at each side, and never a dot in an empty field. */
function fitting(items, margin) {
  const begun = items.reduce((least, one) => Math.min(least, Date.parse(one.begun_at)), now());
  return Math.min(SPAN_MS_MAX, Math.max(SPAN_MS_LEAST, (now() - begun) / (1 - 2 * margin)));
}

function legend() {
  const one = (kind, letter, text) => el("span", { class: "mark" }, el("i", { class: `letter ${kind}`, text: letter }), text);
  const causes = Object.entries(CAUSES).map(([cause, [, , letter, crash]]) => one(crash ? `cause-${cause}` : `open ${cause}`, letter, cause));
  return el("p", { class: "legend pad" }, ...causes, el("span", { class: "mark" }, el("i", { class: "foot" }), "came back"),
    el("span", { class: "hint", text: "Drag to move, Ctrl + wheel to zoom." }));
}
