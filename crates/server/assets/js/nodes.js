// The machines of a fleet: which are there, until when, and what each has. Fetched only where there is one.
import { get } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, setAttribute, setText } from "./dom.js";
import { card, chip, comparison, empty, setChip, sortHeads, subjectLink, table } from "./parts.js";
import { duration } from "./text.js";
import { nodeButton } from "./verbs.js";

const STATES = { __proto__: null, live: ["play", "good"], draining: ["pause", "warn"], gone: ["cross", "bad"] };
const COLUMNS = [["name", "Node"], ["state", "State"], ["lease", "Lease"], ["agents", "Agents"], ["labels", "Labels"], ["version", "Version"], ["since", "Since"], [null, "Actions", true]];
const SORT = { __proto__: null, name: (node) => node.name, state: (node) => node.state, lease: (node) => node.lease_left_ms, agents: (node) => node.agents, labels: (node) => node.labels.join(" "), version: (node) => node.version, since: (node) => Date.parse(node.joined_at) };
const LOOK_MS = 3000; // renewals are no events

export const title = "Nodes";

export function mount(root, scope) {
  root.append(nodesCard(scope, []));
}

/** `nodes` are those of the first look; `name` shows only one of them. */
export function nodesCard(scope, nodes, name = null) {
  let sort = "name";
  let latest = [];
  const list = table("Nodes", sortHeads(COLUMNS, sort, (chosen) => { sort = chosen; show(latest); }, ["agents", "since"]), 0);
  list.node.classList.add("nodes");
  const none = el("div", { hidden: true }, name ? empty("There is no such node.", "relight node list") : empty("There is no fleet: only this machine.", "relight up --store postgres://…"));
  const show = (all) => {
    latest = all;
    const items = (name ? all.filter((node) => node.name === name) : all).toSorted(comparison(SORT, sort, SORT.name));
    keyed(list.body, items, (node) => node.name, makeRow, fillRow);
    markPlaces(all);
  };
  if (nodes.length) show(nodes);
  const concerns = (event) => event.kind === "node" || event.kind === "agent.taken" || event.kind === "agent.left";
  scope.refresh(async () => {
    const found = await get(["nodes"]).catch(() => null);
    if (!found || scope.ended) return;
    show(found.items);
    none.hidden = Boolean(list.body.firstChild);
    list.node.hidden = !none.hidden;
  }, { concerns, gap_ms: 500, every_ms: LOOK_MS });
  return card("Nodes", {}, el("div", { class: "scroll" }, list.node), none);
}

/** An agent whose node is gone runs, says the store, until another node takes it up. */
function markPlaces(nodes) {
  const gone = new Set(nodes.filter((node) => node.state === "gone").map((node) => `on ${node.name}`));
  for (const place of document.querySelectorAll(".place")) {
    const is_gone = gone.has(place.textContent);
    place.classList.toggle("bad", is_gone);
    setAttribute(place, "title", is_gone ? "This node is gone; another one takes the agent up" : null);
  }
}

function makeRow(node) {
  return el("tr", { data: { node: node.name } },
    el("td", {}, subjectLink("node", node.name, { class: "agent-text name" }), el("small", { class: "agent-text" })),
    el("td", {}, chip(STATES, node.state)),
    el("td", { class: "lease" }, el("progress", { "aria-label": `Lease of ${node.name}` }), el("small", { class: "tabular" })),
    el("td", { class: "tabular", data: { label: "agents" } }),
    el("td", { class: "agent-text", data: { label: "labels" } }),
    el("td", { class: "agent-text", data: { label: "version" } }),
    el("td", { data: { label: "since" } }, time(node.joined_at, "for")), el("td"));
}

function fillRow(row, node) {
  const [name, state, lease, agents, labels, version, since, action] = row.children;
  const is_gone = node.state === "gone";
  row.classList.toggle("gone", is_gone);
  setText(name.lastChild, node.is_this ? "this one" : node.address ?? "");
  setChip(state.firstChild, STATES, node.state);
  fillLease(lease, node, is_gone);
  setText(agents, node.agents);
  setText(labels, node.labels.join(" ") || "–");
  labels.classList.toggle("blank", !node.labels.length);
  setText(version, node.version);
  setTime(since.firstChild, is_gone ? null : node.joined_at);
  since.classList.toggle("blank", is_gone);
  if (action.dataset.state === node.state) return;
  action.dataset.state = node.state;
  action.replaceChildren(...(is_gone ? [] : [nodeButton(node)]));
}

function fillLease(cell, node, is_gone) {
  const [bar, small] = cell.children;
  bar.hidden = is_gone;
  setAttribute(bar, "max", node.lease_ms);
  setAttribute(bar, "value", node.lease_left_ms);
  setText(small, is_gone ? "ended" : `${duration(node.lease_left_ms)} of ${duration(node.lease_ms)}`);
}
