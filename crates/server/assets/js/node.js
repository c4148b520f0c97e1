// The page of one node of a fleet: its lease, and the agents that it has.
import { agentsCard } from "./agents.js";
import { nodesCard } from "./nodes.js";

export const title = "Node";

export function mount(root, scope, name) {
  root.append(nodesCard(scope, [], name), agentsCard(scope, { title: "Agents on this node", only: (agent) => agent.node === name }));
}
