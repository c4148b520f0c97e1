// All agents at a glance: one mark each, by node; an icon says its state, a click leads to its page.
import { FEW } from "./agents.js";
import { getAll } from "./api.js";
import { el, keyed, setAttribute } from "./dom.js";
import { icon } from "./icons.js";
import { card, subjectLink } from "./parts.js";
import { placeOf } from "./route.js";
import { words } from "./text.js";
import { AGENT_LOOKS, agentLook } from "./words.js";

const FROM = 9; // fewer are seen in the table
const MOST = 600;
const LOOK_MS = 5000;

/** Hidden where the table of agents shows as much. `show` takes all agents where the table has them. */
export function fleetMap(scope) {
  const groups = el("div", { class: "map" });
  const node = card("Fleet map", { hidden: true, class: "area-map" }, groups);
  let number = 0;
  const show = (agents) => {
    node.hidden = agents.length < FROM || agents.length > MOST;
    if (!node.hidden) fillGroups(groups, agents);
  };
  const load = scope.refresh(async () => {
    if (number <= FEW || number > MOST) return;
    const page = await getAll(["agents"], {}, MOST).catch(() => null);
    if (page && !scope.ended) show(page.items);
  }, { concerns: (event) => event.kind.startsWith("agent.") || event.kind.startsWith("attempt."), gap_ms: 1500, every_ms: LOOK_MS });
  scope.on("stats", (stats) => {
    const before = number;
    number = Object.values(stats.agents).reduce((all, count) => all + count, 0);
    if (number < FROM || number > MOST) node.hidden = true;
    else if (before <= FEW || before > MOST) load();
  });
  return { node, show };
}

function fillGroups(groups, agents) {
  const by_node = Map.groupBy(agents, (agent) => agent.node ?? "");
  const sorted = [...by_node].sort(([a], [b]) => (a < b ? -1 : 1));
  keyed(groups, sorted, ([name]) => name, ([name]) => el("div", { class: "map-group" }, name ? subjectLink("node", name, { class: "agent-text name" }) : el("span", { class: "soft", text: "No node" }), el("ul", {})), (group, [name, items]) => {
    group.firstChild.hidden = !name && sorted.length === 1;
    keyed(group.lastChild, items, (agent) => agent.name, (agent) => el("li", {}, el("a", { href: placeOf("agent", agent.name) })), (item, agent) => fill(item.firstChild, agent));
  });
}

function fill(link, agent) {
  const look = agentLook(agent);
  const text = `${agent.name}: ${words(look)}${agent.task ? `, ${agent.task}` : ""}`;
  setAttribute(link, "aria-label", text);
  setAttribute(link, "title", text);
  if (link.dataset.look === look) return;
  link.dataset.look = look;
  const [name, tone] = AGENT_LOOKS[look] ?? ["circle", "calm"];
  link.className = `dot ${tone}`;
  link.replaceChildren(icon(name));
}
