// Draws lives: one lane an agent, a bar an attempt, a lettered mark a death, on a canvas.
import { duration } from "./text.js";
import { full, now } from "./clock.js";
import { CAUSES, isCrash } from "./words.js";

const LANE = 36; // the same as in pages.css
const HEAD = 26;
const MARK = 8;
const STEPS_MS = [5e3, 15e3, 60e3, 300e3, 900e3, 1800e3, 3600e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, 86400e3, 2 * 86400e3];
const COLOURS = ["line", "line-strong", "ink", "ink-soft", "card", "bar", "bar-alive", "bad", "warn", "cause-ended", ...Object.keys(CAUSES).filter(isCrash).map((cause) => `cause-${cause}`)];

export class Lanes {
  #marks = [];
  #bars = [];

  constructor(canvas) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.readColours();
  }

  /** Canvas knows no CSS variables; asked again when the colours change. */
  readColours() {
    const probe = document.createElement("span");
    document.body.append(probe);
    this.colour = Object.fromEntries(COLOURS.map((name) => {
      probe.style.setProperty("color", `var(--${name})`);
      return [name, getComputedStyle(probe).color];
    }));
    probe.remove();
  }

  /** `lanes`: [{agent, attempts: [{number, begun, ended, cause}], rest}], attempts oldest first; `rest` is null where it is not at rest. */
  draw(lanes, from, to) {
    const width = this.canvas.clientWidth;
    const height = HEAD + Math.max(1, lanes.length) * LANE;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.setProperty("height", `${height}px`);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.pen.font = "11px system-ui, sans-serif";
    Object.assign(this, { from, to, width });
    this.#marks = [];
    this.#bars = [];
    this.#grid(height);
    lanes.forEach((lane, index) => this.#lane(lane, HEAD + index * LANE + LANE / 2));
  }

  x(at) {
    return ((at - this.from) / (this.to - this.from)) * this.width;
  }

  at(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  #grid(height) {
    const step = STEPS_MS.find((ms) => this.x(this.from + ms) > 76) ?? 7 * 86400e3;
    const zone = new Date(this.to).getTimezoneOffset() * 60e3;
    this.pen.textAlign = "left";
    for (let at = Math.ceil((this.from - zone) / step) * step + zone; at < this.to; at += step) {
      this.#rule(this.x(at), 0, height, "line");
      const text = label(at, step);
      if (this.x(at) + 4 + this.pen.measureText(text).width > this.width) continue;
      this.pen.fillStyle = this.colour["ink-soft"];
      this.pen.fillText(text, this.x(at) + 4, 16);
    }
    const present = now();
    if (present > this.from && present < this.to) this.#rule(this.x(present), 0, height, "bad");
  }

  #rule(x, top, bottom, colour) {
    this.pen.fillStyle = this.colour[colour];
    this.pen.fillRect(Math.round(x), top, 1, bottom - top);
  }

  #lane(lane, y) {
    this.pen.fillStyle = this.colour.line;
    this.pen.fillRect(0, y + LANE / 2, this.width, 1);
    const lives = lane.attempts.filter((one) => (one.ended ?? Infinity) > this.from && one.begun < this.to);
    for (const life of lives) this.#bar(lane, life, y);
    const deaths = lives.filter((one) => one.ended && one.ended < this.to);
    for (const group of clusters(deaths, (death) => this.x(death.ended))) this.#mark(lane, group, y);
  }

  #bar(lane, life, y) {
    const left = Math.max(-4, this.x(life.begun));
    const right = Math.min(this.width + 4, this.x(life.ended ?? now()));
    this.pen.fillStyle = this.colour[life.ended ? "bar" : "bar-alive"];
    this.pen.beginPath();
    this.pen.roundRect(left, y - 5, Math.max(2, right - left), 10, 3);
    this.pen.fill();
    this.#bars.push({ left, right: Math.max(right, left + 3), y, lane, life });
    if (life.ended) this.#gap(lane, life, y, right);
  }

  // Between a death and the next attempt: recovering, put off, or not back though it is not at rest.
  #gap(lane, life, y, left) {
    const next = lane.attempts.find((one) => one.number === life.number + 1);
    const is_deferred = life.cause === "deferred";
    if (!next && !is_deferred && (lane.rest !== null || !isCrash(life.cause))) return;
    const colour = is_deferred ? "warn" : next ? "line-strong" : "bad";
    this.pen.strokeStyle = this.colour[colour];
    this.pen.lineWidth = 2;
    this.pen.setLineDash([4, 4]);
    this.pen.beginPath();
    this.pen.moveTo(left, y);
    this.pen.lineTo(Math.min(this.width, this.x(next?.begun ?? now())), y);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  #mark(lane, deaths, y) {
    const worst = deaths.findLast((death) => isCrash(death.cause)) ?? deaths.at(-1);
    const x = this.x(deaths[deaths.length >> 1].ended);
    const text = deaths.length > 1 ? String(deaths.length) : (CAUSES[worst.cause]?.[2] ?? "?");
    const crash = isCrash(worst.cause);
    const colour = this.colour[crash ? `cause-${worst.cause}` : worst.cause === "deferred" ? "warn" : "cause-ended"] ?? this.colour.bad;
    const half = Math.max(MARK, text.length * 4 + 4);
    this.pen.beginPath();
    this.pen.roundRect(x - half, y - MARK, half * 2, MARK * 2, MARK);
    this.pen.fillStyle = crash ? colour : this.colour.card;
    this.pen.strokeStyle = crash ? this.colour.card : colour;
    this.pen.lineWidth = 1.5;
    this.pen.fill();
    this.pen.stroke();
    this.pen.fillStyle = crash ? this.colour.card : this.colour["ink-soft"];
    this.pen.textAlign = "center";
    this.pen.font = "bold 10px system-ui, sans-serif";
    this.pen.fillText(text, x, y + 3.5);
    this.pen.font = "11px system-ui, sans-serif";
    if (deaths.every((death) => cameBack(lane, death))) this.#back(x, half, y);
    this.#marks.push({ x, half, y, lane, deaths });
  }

  // A green foot below the mark: it came back.
  #back(x, half, y) {
    this.pen.fillStyle = this.colour["bar-alive"];
    this.pen.fillRect(x - half + 2, y + MARK + 2, half * 2 - 4, 3);
  }

  /** What is under the pointer, as lines of text. */
  tell(x, y) {
    const mark = this.#marks.findLast((one) => Math.abs(one.x - x) <= one.half + 2 && Math.abs(one.y - y) <= MARK + 6);
    if (mark) return [mark.lane.agent, ...mark.deaths.slice(-6).map((death) => deathText(mark.lane, death)), ...(mark.deaths.length > 6 ? [`and ${mark.deaths.length - 6} before`] : [])];
    const bar = this.#bars.findLast((one) => x >= one.left - 1 && x <= one.right + 1 && Math.abs(one.y - y) <= 9);
    return bar ? [bar.lane.agent, lifeText(bar.life)] : null;
  }
}

function clusters(deaths, place) {
  const groups = [];
  for (const death of deaths) {
    const last = groups.at(-1);
    if (last && place(death) - place(last.at(-1)) < MARK * 2 - 2) last.push(death);
    else groups.push([death]);
  }
  return groups;
}

function label(at, step) {
  const date = new Date(at);
  const midnight = date.getHours() === 0 && date.getMinutes() === 0;
  if (step >= 86400e3 || (midnight && step >= 6 * 3600e3)) return date.toLocaleDateString(undefined, { weekday: "short", day: "numeric" });
  return date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: step < 60e3 ? "2-digit" : undefined, hourCycle: "h23" });
}

const cameBack = (lane, death) => lane.attempts.some((one) => one.number === death.number + 1);

export function deathText(lane, death) {
  const next = lane.attempts.find((one) => one.number === death.number + 1);
  const back = next ? `back in ${duration(next.begun - (death.down ?? death.ended))}` : isCrash(death.cause) ? lane.rest ?? "not back" : "";
  return [`attempt ${death.number}: ${death.cause}, ${full(death.ended)}`, `lived ${duration(death.ended - death.begun)}`, back].filter(Boolean).join(", ");
}

function lifeText(life) {
  return life.ended ? `attempt ${life.number}: lived ${duration(life.ended - life.begun)}` : `attempt ${life.number}: alive for ${duration(now() - life.begun)}`;
}

const parsed = (text) => (text ? Date.parse(text) : null);

/** Takes in what an event tells, so that nothing has to be fetched again. */
export function addEvent(lanes, event) {
  const at = Date.parse(event.at);
  const { number, cause } = event.detail ?? {};
  const attempts = lanes.get(event.agent) ?? [];
  const known = attempts.find((one) => one.number === number);
  if (event.kind === "attempt.begun" && !known) attempts.push({ number, begun: at, ended: null, cause: null });
  if (event.kind === "attempt.died" && known) Object.assign(known, { ended: parsed(event.detail.died_at) ?? at, down: parsed(event.detail.down_since) ?? at, cause });
  lanes.set(event.agent, attempts);
}

/** The daemon's list by agent, attempts oldest first. */
export function toLanes(items) {
  const lanes = new Map();
  for (const one of items) {
    if (!lanes.has(one.agent)) lanes.set(one.agent, []);
    lanes.get(one.agent).push({ number: one.number, begun: Date.parse(one.begun_at), ended: parsed(one.ended_at), down: parsed(one.down_since), cause: one.cause });
  }
  for (const attempts of lanes.values()) attempts.sort((a, b) => a.number - b.number);
  return lanes;
}

/** In the order of their names. */
export function listed(lanes) {
  return [...lanes].map(([agent, attempts]) => ({ agent, attempts })).sort((a, b) => (a.agent < b.agent ? -1 : 1));
}
