// Whether an agent that did not come back is meant to.
import { get } from "./api.js";
import { agentLook } from "./words.js";

/** `idle` or `stopped` of an agent at rest; null of one that should be back. */
export async function restOf(name) {
  const agent = await get(["agents", name]).catch(() => null);
  return agent?.state === "stopped" ? agentLook(agent) : null;
}
