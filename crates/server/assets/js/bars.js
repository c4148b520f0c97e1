// What an agent used: memory and CPU of its attempts, cost of its tasks, as bars from old to new.
import { get } from "./api.js";
import { el, replace, setText, svg } from "./dom.js";
import { card } from "./parts.js";
import { FIRST_OF_AGENT as SHOWN } from "./tasks.js";
import { duration, memory, money } from "./text.js";

const HEIGHT = 54;

export function barsCard(scope, name, concerns) {
  const charts = [chart("Memory, peak of each attempt", (kib) => memory(kib)), chart("CPU time of each attempt", duration), chart("Cost of each task", money)];
  const none = el("p", { class: "pad soft", hidden: true, text: "Known once an attempt has ended." });
  scope.refresh(async () => {
    const [attempts, tasks] = await Promise.all([get(["attempts"], { agent: name, limit: SHOWN }), get(["tasks"], { agent: name, newest: true, limit: SHOWN })]).catch(() => []);
    if (!attempts || scope.ended) return;
    const ended = attempts.items.filter((one) => one.ended_at).reverse();
    charts[0].show(ended.map((one) => [`attempt ${one.number}`, one.memory_max_kib]));
    charts[1].show(ended.map((one) => [`attempt ${one.number}`, one.cpu_ms]));
    charts[2].show(tasks.items.map((task) => [task.id, Number(task.cost) || null]).reverse());
    none.hidden = charts.some((one) => !one.node.hidden);
  }, { concerns: (event) => concerns(event) && event.kind === "attempt.died", gap_ms: 2000 });
  return card("Memory, CPU and cost", {}, none, ...charts.map((one) => one.node));
}

/** Hidden while there is nothing to show. */
function chart(title, format) {
  const sum = el("span", { class: "soft tabular" });
  const field = el("div", { class: "bars" });
  const node = el("figure", { hidden: true }, el("figcaption", {}, el("h3", { text: title }), sum), field);
  let key = "";
  return { node, show(values) {
    const known = values.filter(([, value]) => value != null);
    node.hidden = !known.length;
    if (!known.length || key === JSON.stringify(known)) return;
    key = JSON.stringify(known);
    const most = Math.max(...known.map(([, value]) => value));
    setText(sum, `last ${format(known.at(-1)[1])}, most ${format(most)}`);
    const width = 100 / SHOWN;
    const bars = known.map(([label, value], index) => svg("rect", { class: "use", x: `${index * width}%`, width: `${width * 0.8}%`, y: HEIGHT - Math.max(1, (value / (most || 1)) * HEIGHT), height: Math.max(1, (value / (most || 1)) * HEIGHT) },
      svg("title", {}, `${label}: ${format(value)}`)));
    replace(field, svg("svg", { class: "wf", height: HEIGHT, role: "img", "aria-label": `${title}: ${known.map(([label, value]) => `${label} ${format(value)}`).slice(-5).join(", ")}` }, ...bars));
  } };
}
