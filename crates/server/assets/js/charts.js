// Small charts: deaths and recoveries an hour, time to recover, steps a minute, spending an hour. Each has a table.
import { now } from "./clock.js";
import { el, replace, setText, svg } from "./dom.js";
import { card } from "./parts.js";
import { count, duration, money } from "./text.js";
import { calmCauses, crashCauses } from "./words.js";

const WIDTH = 280;
const HEIGHT = 100;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

export function chartsCard(scope) {
  const deaths = panel("Deaths per hour");
  const recover = panel("Time to recover");
  const steps = panel("Steps per minute");
  const cost = panel("Spent per hour");
  scope.on("stats", (stats) => {
    showDeaths(deaths, stats);
    showRecover(recover, stats.time_to_recover_ms);
    showSteps(steps, stats);
    showCost(cost, stats);
  });
  return card("Last 24 hours", { class: "area-charts" }, el("div", { class: "charts" }, deaths.node, recover.node, steps.node, cost.node));
}

function panel(title) {
  const sum = el("span", { class: "soft tabular" });
  const field = el("div", { class: "chart" });
  const legend = el("p", { class: "legend" });
  const rows = el("div");
  const node = el("figure", {}, el("figcaption", {}, el("h3", { text: title }), sum), field, legend,
    el("details", { class: "as-table" }, el("summary", { text: "As a table" }), rows));
  return { node, sum, field, legend, rows, title };
}

// The same picture is not drawn twice: it would cost, and a tooltip on it would vanish.
function draw(panel, key, sum, make) {
  setText(panel.sum, sum);
  if (panel.key === key) return;
  panel.key = key;
  const { picture, legend = [], head, rows } = make();
  replace(panel.field, picture);
  replace(panel.legend, ...legend);
  replace(panel.rows, el("table", {}, el("caption", { class: "unseen", text: panel.title }),
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text) => el("td", { text: String(text) })))))));
}

function showDeaths(panel, stats) {
  const hours = lastHours(stats);
  const crashes = total(hours, (hour) => sum(hour.causes, crashCauses));
  const back = total(hours, (hour) => hour.back);
  draw(panel, JSON.stringify(hours), `${count(crashes)} crashed, ${count(back)} back`, () => ({
    picture: deathsPicture(hours),
    legend: [...causesSeen(hours).map(([cause, number]) => mark(`cause-${cause}`, `${cause} ${number}`)), mark("back", `came back ${back} (below)`)],
    head: ["hour", "crashed", "ended as meant", "came back"],
    rows: hours.map((hour) => [hour.label, sum(hour.causes, crashCauses), sum(hour.causes, calmCauses), hour.back]).reverse(),
  }));
}

function lastHours(stats) {
  const key = (time) => Math.floor(Date.parse(time) / HOUR_MS);
  const deaths = new Map(stats.deaths_per_hour.map((one) => [key(one.hour), one.causes]));
  const back = new Map(stats.recoveries_per_hour.map((one) => [key(one.hour), one.count]));
  const last = key(stats.now);
  return Array.from({ length: 24 }, (_, index) => last - 23 + index).map((hour) => ({
    label: `${String(new Date(hour * HOUR_MS).getHours()).padStart(2, "0")}:00`, causes: deaths.get(hour) ?? {}, back: back.get(hour) ?? 0,
  }));
}

const sum = (causes, names) => names.reduce((all, name) => all + (causes[name] ?? 0), 0);
const total = (items, number) => items.reduce((all, item) => all + number(item), 0);

function causesSeen(hours) {
  return crashCauses.map((cause) => [cause, total(hours, (hour) => hour.causes[cause] ?? 0)]).filter(([, number]) => number > 0);
}

const mark = (kind, text) => el("span", { class: "mark" }, el("i", { class: kind }), text);

// Crashes grow upward, recoveries downward, on one scale: what has no answer below did not come back.
function deathsPicture(hours) {
  const up = Math.max(3, ...hours.map((hour) => sum(hour.causes, crashCauses)));
  const down = Math.max(2, ...hours.map((hour) => hour.back));
  const unit = (HEIGHT - 22) / (up + down);
  const zero = 4 + up * unit;
  const step = (WIDTH - 24) / 24;
  const parts = hours.flatMap((hour, index) => hourBars(hour, 24 + index * step, step - 3, zero, unit));
  const ticks = hours.map((hour, index) => (index % 6 === 5 ? svg("text", { x: 24 + (index + 1) * step, y: HEIGHT - 2, "text-anchor": "end" }, hour.label) : null));
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Bars for 24 hours: deaths by cause upward, recoveries downward. The table below holds the numbers." },
    svg("text", { x: 18, y: 12, "text-anchor": "end" }, String(up)), svg("text", { x: 18, y: zero + 4, "text-anchor": "end" }, "0"),
    svg("line", { class: "axis", x1: 22, x2: WIDTH, y1: zero, y2: zero }), ...parts, ...ticks);
}

function hourBars(hour, x, width, zero, unit) {
  let top = zero;
  const bars = crashCauses.map((cause) => [`cause-${cause}`, hour.causes[cause] ?? 0])
    .filter(([, number]) => number > 0)
    .map(([kind, number]) => {
      top -= number * unit;
      return svg("rect", { class: kind, x, y: top + 0.5, width, height: Math.max(1, number * unit - 1), rx: 1 });
    });
  if (hour.back) bars.push(svg("rect", { class: "back", x, y: zero + 1, width, height: hour.back * unit - 1, rx: 1 }));
  if (!bars.length) return [];
  const text = Object.entries(hour.causes).map(([cause, number]) => `${cause} ${number}`).join(", ");
  return [svg("g", {}, svg("title", {}, `${hour.label}  died: ${text || "none"}; came back: ${hour.back}`), ...bars)];
}

const RULER_MS = [100, 1000, 10_000, 60_000, 600_000];

// A ruler with powers of ten: recoveries take from milliseconds to minutes.
function showRecover(panel, { p50, p99, count: number }) {
  const sum = number ? `${count(number)} recoveries` : "none yet";
  draw(panel, `${p50} ${p99} ${number}`, sum, () => ({
    picture: recoverPicture(p50, p99),
    head: ["", "time"], rows: [["median (p50)", duration(p50)], ["p99", duration(p99)]],
  }));
}

function recoverPicture(p50, p99) {
  const base = HEIGHT - 26;
  const place = (ms) => 14 + (Math.log10(Math.min(1_200_000, Math.max(30, ms)) / 30) / Math.log10(40_000)) * (WIDTH - 28);
  const ticks = RULER_MS.flatMap((ms) => [svg("line", { class: "axis", x1: place(ms), x2: place(ms), y1: base - 4, y2: base + 4 }),
    svg("text", { x: place(ms), y: base + 20, "text-anchor": "middle" }, duration(ms).replace(".0", ""))]);
  const label = p50 == null ? "No recoveries yet" : `Half came back within ${duration(p50)}, 99 of 100 within ${duration(p99)}`;
  const dot = (ms, y, kind, name) => [svg("line", { class: "axis", x1: place(ms), x2: place(ms), y1: y + 5, y2: base }), svg("circle", { class: kind, cx: place(ms), cy: base, r: 5 }),
    svg("text", { class: "strong", x: Math.min(WIDTH - 52, Math.max(52, place(ms))), y, "text-anchor": "middle" }, `${name} ${duration(ms)}`)];
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: 6, x2: WIDTH - 6, y1: base, y2: base }), ...ticks,
    ...(p50 == null ? [] : [svg("line", { class: "span", x1: place(p50), x2: place(p99), y1: base, y2: base }), ...dot(p99, 24, "p99", "p99"), ...dot(p50, 50, "p50", "p50")]));
}

function showCost(panel, stats) {
  const key = (time) => Math.floor(Date.parse(time) / HOUR_MS);
  const known = new Map((stats.cost_per_hour ?? []).map((one) => [key(one.hour), Number(one.cost)]));
  const hours = Array.from({ length: 24 }, (_, index) => key(stats.now) - 23 + index).map((hour) => [hour, known.get(hour) ?? 0]);
  draw(panel, JSON.stringify(hours), known.size ? money(total(hours, ([, cost]) => cost)) : "nothing reported", () => ({
    picture: costPicture(hours.map(([, cost]) => cost)),
    head: ["hours ago", "spent"], rows: hours.map(([, cost], index) => [23 - index, money(cost)]).reverse(),
  }));
}

function costPicture(costs) {
  const top = Math.max(...costs);
  const base = HEIGHT - 18;
  const width = (WIDTH - 26) / costs.length;
  const bars = costs.map((cost, index) => cost > 0 && svg("rect", { class: "use", x: 24 + index * width + 1, width: width - 2, y: base - Math.max(1, (cost / top) * (base - 8)), height: Math.max(1, (cost / top) * (base - 8)), rx: 1 }, svg("title", {}, `${23 - index} h ago: ${money(cost)}`)));
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Spent in each of the last 24 hours" },
    svg("text", { x: 22, y: 12, "text-anchor": "end" }, top ? money(top).replace(/\.00$/, "") : ""), svg("text", { x: 18, y: base + 3, "text-anchor": "end" }, "0"), ...bars,
    svg("line", { class: "axis", x1: 22, x2: WIDTH, y1: base, y2: base }), svg("text", { x: 24, y: HEIGHT - 3 }, "24 h ago"), svg("text", { x: WIDTH - 2, y: HEIGHT - 3, "text-anchor": "end" }, "now"));
}

function showSteps(panel, stats) {
  const key = (time) => Math.floor((time ? Date.parse(time) : now()) / MINUTE_MS);
  const known = new Map(stats.steps_per_minute.map((one) => [key(one.minute), one.count]));
  const minutes = Array.from({ length: 60 }, (_, index) => key(stats.now) - 59 + index).map((minute) => [minute, known.get(minute) ?? 0]);
  const all = total(minutes, ([, number]) => number);
  draw(panel, JSON.stringify(minutes), `${count(all)} in the last hour`, () => ({
    picture: stepsPicture(minutes.map(([, number]) => number)),
    head: ["minutes ago", "steps"], rows: minutes.map(([, number], index) => [59 - index, number]).reverse(),
  }));
}

function stepsPicture(numbers) {
  const top = Math.max(4, ...numbers);
  const x = (index) => 24 + (index * (WIDTH - 26)) / (numbers.length - 1);
  const base = HEIGHT - 18;
  const y = (number) => base - (number / top) * (base - 8);
  const line = numbers.map((number, index) => `${x(index).toFixed(1)},${y(number).toFixed(1)}`).join(" ");
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Steps finished in each of the last 60 minutes" },
    svg("text", { x: 18, y: 12, "text-anchor": "end" }, String(top)), svg("text", { x: 18, y: base + 3, "text-anchor": "end" }, "0"),
    svg("polygon", { class: "area", points: `24,${base} ${line} ${WIDTH - 2},${base}` }), svg("polyline", { class: "curve", points: line }),
    svg("line", { class: "axis", x1: 22, x2: WIDTH, y1: base, y2: base }),
    svg("text", { x: 24, y: HEIGHT - 3 }, "1 h ago"), svg("text", { x: WIDTH - 2, y: HEIGHT - 3, "text-anchor": "end" }, "now"));
}
