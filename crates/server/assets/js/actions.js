// What a person can do to agents, tasks, steps and sessions: asks first, does it, says what came of it.
import { mayOperate, post } from "./api.js";
import { ask } from "./dialog.js";
import { say, sayError } from "./notice.js";
import { button } from "./parts.js";
import { stepName, words } from "./text.js";

const AGENT_VERBS = {
  restart: { label: "Restart", tone: "primary", icon: "again" },
  start: { label: "Start", tone: "primary", icon: "play" },
  stop: { label: "Stop", tone: "danger", icon: "square" },
};

/** Which verbs make sense now. Agents that report by themselves are nobody's to start. */
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
  const label_full = `${label} ${present().name}`;
  return operate(button(label, () => changeAgent(present(), verb), { icon, class: `verb-${verb}`, title: label_full, "aria-label": label_full }));
}

/** Greys a button out for those who may only read. */
function operate(node) {
  if (mayOperate()) return node;
  node.disabled = true;
  node.title = "This login may only read";
  return node;
}

async function changeAgent(agent, verb) {
  const { label, tone } = AGENT_VERBS[verb];
  const choice = await ask({
    title: `${label} ${agent.name}?`, text: consequence(agent, verb),
    type: `relight ${verb} ${agent.name}`, choices: [[verb, `${label} ${agent.name}`, tone]],
  });
  if (!choice) return;
  await attempt(["agents", agent.name, verb], {}, (answer) => {
    const task = answer.task_cancelled ? `; its run of task ${answer.task_cancelled} was cut off` : "";
    return `${agent.name} was ${answer.previous_state}, is ${answer.state}${task}.`;
  });
}

function consequence(agent, verb) {
  const life = agent.pid ? `Attempt ${agent.attempt} (process ${agent.pid}) is ended` : "Nothing of it runs now";
  const work = agent.task && agent.pid ? `Its work on ${agent.task} is cut off; finished steps are kept.` : null;
  switch (verb) {
    case "stop": return [`${life}. It stays stopped until a person starts it.`, work];
    case "restart": return [`${life} and the next attempt begins.`, work];
    default: return [`A new attempt begins at once, and recoveries are counted from none again.`];
  }
}

/** A step that was begun is under way while somebody works on the task, and in doubt after. */
export const isWorkedOn = (task) => Boolean(task.holder) && task.status === "in_progress";

/** The steps a person has to decide about. */
export function inDoubt(task) {
  if (isWorkedOn(task)) return [];
  const names = new Set((task.in_doubt ?? []).map(stepName));
  return task.steps.filter((step) => step.state === "begun" && names.has(stepName(step)));
}

/** Offers both answers for a step in doubt. */
export function resolveButton(task, step) {
  return operate(button("Resolve …", () => resolve(task, step), { class: "primary", "aria-label": `Resolve step ${step.name}` }));
}

async function resolve(task, step) {
  const again = step.occurrence > 1 ? ` --occurrence ${step.occurrence}` : "";
  const choice = await ask({
    title: `Did step ${step.name} happen?`,
    text: ["It was begun and not ended. Look at the other side (the bank, the remote repository, the mail server), not at Relight.",
      "Happened: it counts as finished and is never run. Did not: it may be run again. Whoever held the task is refused from now on."],
    type: `relight step resolve ${step.name} --task ${task.id}${again} --happened`,
    choices: [["no", "It did not happen", "danger"], ["yes", "It happened", "primary"]],
  });
  if (!choice) return;
  const body = { happened: choice === "yes", occurrence: step.occurrence };
  await attempt(["tasks", task.id, "steps", step.name, "resolve"], body, (after) => `Step ${step.name} is resolved; task ${task.id} is ${words(after.status)}.`);
}

const TASK_VERBS = {
  retry: { label: "Retry", tone: "primary", icon: "again", text: "It is assigned again and goes on from its last finished step. This uses up one retry." },
  cancel: { label: "Cancel task", tone: "danger", icon: "slash", text: "It ends for good. Its finished steps stay on record; whoever holds it is refused from now on." },
};

export function taskVerbs(task) {
  if (task.status === "completed" || task.status === "cancelled") return [];
  return ["failed", "interrupted", "suspended", "blocked", "deferred"].includes(task.status) ? ["retry", "cancel"] : ["cancel"];
}

export function taskButton(task, verb) {
  const { label, icon } = TASK_VERBS[verb];
  return operate(button(label, () => changeTask(task, verb), { icon, "aria-label": `${label}: ${task.id}` }));
}

async function changeTask(task, verb) {
  const { label, tone, text } = TASK_VERBS[verb];
  const force = verb === "retry" && task.retries >= task.max_retries;
  const choice = await ask({
    title: `${label} ${task.id}?`, text: [text, force && "Its retries are used up; this one is given by you."],
    type: `relight task ${verb} ${task.id}${force ? " --force" : ""}`, choices: [[verb, label, tone]],
  });
  if (choice) await attempt(["tasks", task.id, verb], force ? { force } : {}, (after) => `Task ${task.id} is ${words(after.status)}.`);
}

export function sessionButton(session) {
  const verb = session.state === "suspended" ? "resume" : "suspend";
  const label = verb === "resume" ? "Resume" : "Suspend";
  return operate(button(label, () => changeSession(session, verb, label), { "aria-label": `${label} ${session.key}` }));
}

async function changeSession(session, verb, label) {
  const text = verb === "resume" ? "Its gateway may take it up again." : "Its gateway leaves it alone until a person resumes it.";
  const choice = await ask({ title: `${label} ${session.key}?`, text, type: `relight session ${verb} ${session.key}`, choices: [[verb, label, "primary"]] });
  if (choice) await attempt(["sessions", session.key, verb], {}, () => `Session ${session.key}: ${verb} was asked for.`);
}

async function attempt(path, body, tell) {
  try {
    say(tell(await post(path, body)), "toast");
    dispatchEvent(new Event("relight-acted"));
  } catch (error) {
    sayError(error);
  }
}
