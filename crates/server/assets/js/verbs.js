// Which verbs make sense for agents, tasks, steps, sessions and nodes, as buttons. What a click does is in
// actions.js, which is fetched with the first click.
import { mayAdminister, mayOperate } from "./api.js";
import { sayError } from "./notice.js";
import { button } from "./parts.js";
import { stepName } from "./text.js";

export const AGENT_VERBS = {
  restart: { label: "Restart", tone: "primary", icon: "again" },
  start: { label: "Start", tone: "primary", icon: "play" },
  stop: { label: "Stop", tone: "danger", icon: "square" },
};

export const TASK_VERBS = {
  retry: { label: "Retry", tone: "primary", icon: "again" },
  cancel: { label: "Cancel task", tone: "danger", icon: "slash" },
};

/** Agents that report by themselves are nobody's to start. */
export function agentVerbs(agent) {
  if (agent.self_reporting) return [];
  switch (agent.state) {
    case "running": return ["restart", "stop"];
    case "crashed": case "suspended": return ["start", "stop"];
    default: return ["start"];
  }
}

/** `agent` is a function where the row outlives what it shows. */
export function agentButton(agent, verb) {
  const { label, icon } = AGENT_VERBS[verb];
  const present = typeof agent === "function" ? agent : () => agent;
  const name = `${label} ${present().name}`;
  return operate(button(label, () => act("changeAgent", present(), verb), { icon, class: `verb-${verb}`, title: name, "aria-label": name }));
}

/** A step that was begun is under way while its own holder works on the task, and in doubt after. */
export const isWorkedOn = (task) => Boolean(task.holder?.alive) && task.status === "in_progress";
export const isUnderWay = (task, begun_ms) => isWorkedOn(task) && begun_ms >= Date.parse(task.holder.since);

/** The steps of which nobody knows whether they happened. Whoever works on the task now was told; a person decides once nobody does. */
export function inDoubt(task) {
  const names = new Set((task.in_doubt ?? []).map(stepName));
  return task.steps.filter((step) => step.state === "begun" && names.has(stepName(step)) && !isUnderWay(task, Date.parse(step.at)));
}

/** The step in doubt that only a person decides: a retry would stop at it. */
export const waitsForPerson = (task) => (isWorkedOn(task) ? null : inDoubt(task).find((step) => step.rule === "once"));

/** The step that its holder works on now. */
export const stepUnderWay = (task) => task.steps?.findLast((step) => step.state === "begun" && isUnderWay(task, Date.parse(step.at)));

export function resolveButton(task, step) {
  return operate(button("Resolve …", () => act("resolveStep", task, step), { class: "primary", "aria-label": `Resolve step ${step.name}` }));
}

export function taskVerbs(task) {
  if (task.status === "completed" || task.status === "cancelled") return [];
  return ["failed", "interrupted", "suspended", "blocked", "deferred"].includes(task.status) ? ["retry", "cancel"] : ["cancel"];
}

export function taskButton(task, verb) {
  const { label, icon } = TASK_VERBS[verb];
  return operate(button(label, () => act("changeTask", task, verb), { icon, "aria-label": `${label}: ${task.id}` }));
}

export function sessionButton(session) {
  const verb = session.state === "suspended" ? "resume" : "suspend";
  const label = verb === "resume" ? "Resume" : "Suspend";
  return operate(button(label, () => act("changeSession", session, verb), { "aria-label": `${label} ${session.key}` }));
}

/** One that drains takes nothing new; the other verb lets it. */
export function nodeButton(node) {
  const label = node.state === "draining" ? "Undrain" : "Drain";
  const drain = button(label, () => act("changeNode", node), { "aria-label": `${label} ${node.name}` });
  return mayAdminister() ? drain : greyed(drain, "This login may not change nodes");
}

/** Greys a button out for those who may only read. */
function operate(node) {
  return mayOperate() ? node : greyed(node, "This login may only read");
}

function greyed(node, why) {
  node.disabled = true;
  node.title = why;
  return node;
}

async function act(name, ...subjects) {
  try {
    const actions = await import("./actions.js");
    await actions[name](...subjects);
  } catch (error) {
    sayError(error);
  }
}
