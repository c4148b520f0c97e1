// The first view: what is running, what died and why, what came back, and what needs a person.
import { agentsCard } from "./agents.js";
import { get } from "./api.js";
import { chartsCard } from "./charts.js";
import { el, keyed, setText } from "./dom.js";
import { fleetMap } from "./fleetmap.js";
import { flightCard } from "./flight.js";
import { icon } from "./icons.js";
import { needsCard } from "./needs.js";
import { recentCard } from "./recent.js";
import { count, duration, money } from "./text.js";
import { crashCauses } from "./words.js";

export const title = "Overview";

export function mount(root, scope) {
  const map = fleetMap(scope);
  const wide = el("div", { class: "stack waiting" }, agentsCard(scope, { told: map.show }), map.node, flightCard(scope), chartsCard(scope));
  root.append(tiles(scope), el("div", { class: "overview" },
    el("div", { class: "stack" }, needsCard(scope), recentCard(scope)), wide));
  showNodes(scope, wide);
}

/** The machines of a fleet stand above its agents. Where there is none, there is nothing of it. */
function showNodes(scope, stack) {
  let is_shown = false;
  const look = async () => {
    const found = await get(["nodes"]).catch(() => null);
    if (found?.items.length && !is_shown) {
      is_shown = true;
      const { nodesCard } = await import("./nodes.js");
      if (!scope.ended) stack.prepend(nodesCard(scope, found.items));
    }
    stack.classList.remove("waiting");
  };
  look();
  scope.on("events", (events) => is_shown || (events.some((event) => event.kind === "node") && look()));
}

const TILES = [["needs", "hand", "Needs me"], ["running", "play", "Running"], ["died", "bolt", "Died, 24 h"],
  ["recover", "again", "Time to recover"], ["work", "tasks", "In flight"], ["spent", "coin", "Spent, 24 h"]];

const CAUSES_NAMED = 3;

function tiles(scope) {
  const strip = el("dl", { class: "tiles" });
  const make = ([key, name, label]) => el("div", { class: "tile" }, el("dt", {}, icon(name), label), el("dd", {}, el("b", { class: "tabular loading", text: "00" }), el("small")));
  keyed(strip, TILES, ([key]) => key, make, () => {});
  scope.on("stats", (stats) => {
    const numbers = sums(stats);
    keyed(strip, TILES, ([key]) => key, make, (node, [key]) => {
      const [number, beside, tone] = numbers[key];
      const [big, small] = node.lastChild.children;
      big.classList.remove("loading");
      setText(big, typeof number === "number" ? count(number) : number);
      setText(small, beside);
      node.dataset.tone = tone;
    });
  });
  return strip;
}

/** The causes with their numbers; the rarest together. */
function inWords(causes) {
  const named = causes.slice(0, causes.length > CAUSES_NAMED ? CAUSES_NAMED - 1 : CAUSES_NAMED);
  const others = causes.slice(named.length).reduce((all, [, number]) => all + number, 0);
  return [...named, ["other", others]].filter(([, number]) => number).map(([cause, number]) => `${number} ${cause}`).join(", ");
}

/** What there is of each: `2 tasks, 1 turn`. */
const listed = (...kinds) => kinds.filter(([number]) => number).map(([number, one, ...how]) => [count(number), number === 1 ? one : `${one}s`, ...how].join(" ")).join(", ");

function sums(stats) {
  const agents = Object.values(stats.agents).reduce((all, number) => all + number, 0);
  const causes = crashCauses
    .map((cause) => [cause, stats.deaths_per_hour.reduce((all, hour) => all + (hour.causes[cause] ?? 0), 0)])
    .filter(([, number]) => number > 0)
    .sort((a, b) => b[1] - a[1]);
  const died = causes.reduce((all, [, number]) => all + number, 0);
  const back = stats.recoveries_per_hour.reduce((all, hour) => all + hour.count, 0);
  const needs = stats.needs_me_total;
  const recover = stats.time_to_recover_ms;
  const [tasks, turns, blocked] = [stats.tasks.in_progress ?? 0, stats.sessions.active ?? 0, stats.tasks.blocked ?? 0];
  const cost = (stats.cost_per_hour ?? []).reduce((all, hour) => all + Number(hour.cost), 0);
  return {
    needs: [needs, needs ? "see below" : "all is well", needs ? "warn" : "good"],
    running: [stats.agents.running ?? 0, `of ${count(agents)} agents`, "plain"],
    died: [died, [inWords(causes), died && `${count(Math.min(back, died))} back`].filter(Boolean).join("; "), died ? "bad" : "plain"],
    recover: [recover.p50 == null ? "–" : duration(recover.p50), recover.p50 == null ? "no recovery yet" : `median; p99 ${duration(recover.p99)}`, "plain"],
    work: [tasks + turns, [listed([tasks, "task"], [turns, "turn"]), listed([blocked, "task", "blocked"], [stats.in_doubt, "step", "in doubt"])].filter(Boolean).join("; "), stats.in_doubt ? "warn" : "plain"],
    spent: [money(cost), cost ? "as agents report" : "nothing reported", "plain"],
  };
}
