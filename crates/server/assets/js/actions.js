// What a person does to agents, tasks, steps, sessions and nodes: asks first, does it, says what came of it.
// Refusals are thrown to whoever was clicked.
import { post } from "./api.js";
import { ask } from "./dialog.js";
import { say } from "./notice.js";
import { words } from "./text.js";
import { AGENT_VERBS, TASK_VERBS, waitsForPerson } from "./verbs.js";

export async function changeAgent(agent, verb) {
  const { label, tone } = AGENT_VERBS[verb];
  const agreed = await ask({
    title: `${label} ${agent.name}?`, text: consequence(agent, verb),
    type: `relight ${verb} ${agent.name}`, choices: [[verb, label, tone]],
  });
  if (!agreed) return;
  const answer = await post(["agents", agent.name, verb]);
  const task = answer.task_interrupted ? `; its run of task ${answer.task_interrupted} was cut off` : "";
  done(`${agent.name} was ${answer.previous_state}, is ${answer.state}${task}.`);
}

function consequence(agent, verb) {
  const life = agent.pid ? `Attempt ${agent.attempt} (process ${agent.pid}) is ended` : "Nothing of it runs now";
  const work = agent.task && agent.pid ? `Its work on ${agent.task} is cut off; finished steps are kept.` : null;
  switch (verb) {
    case "stop": return [`${life}. It stays stopped until a person starts it.`, work];
    case "restart": return [`${life} and the next attempt begins.`, work];
    default: return ["A new attempt begins at once, and recoveries are counted from none again."];
  }
}

const occurrence = (step) => (step.occurrence > 1 ? ` --occurrence ${step.occurrence}` : "");

export async function resolveStep(task, step) {
  const choice = await ask({
    title: `Did step ${step.name} happen?`,
    text: ["It was begun and not ended. Look at the other side (the bank, the remote repository, the mail server), not at Relight.",
      "Happened: it counts as finished and is never run. Did not: it may be run again. Whoever held the task is refused from now on."],
    type: `relight step resolve ${step.name} --task ${task.id}${occurrence(step)} --happened`,
    choices: [["no", "It did not happen", "danger"], ["yes", "It happened", "primary"]],
  });
  if (!choice) return;
  const after = await post(["tasks", task.id, "steps", step.name, "resolve"], { happened: choice === "yes", occurrence: step.occurrence });
  done(`Step ${step.name} is resolved; task ${task.id} is ${words(after.status)}.`);
}

const TASK_TEXT = {
  retry: "It is assigned again and continues after its last finished step. This uses up one retry.",
  cancel: "It ends for good. Its finished steps stay on record; whoever holds it is refused from now on.",
};

export async function changeTask(task, verb) {
  const { label, tone } = TASK_VERBS[verb];
  const force = verb === "retry" && task.retries >= task.max_retries;
  const step = verb === "retry" ? waitsForPerson(task) : null;
  const agreed = step ? await askToResolve(task, step) : await ask({
    title: `${label} ${task.id}?`, text: [TASK_TEXT[verb], force && "Its retries are used up; this one is given by you."],
    type: `relight task ${verb} ${task.id}${force ? " --force" : ""}`, choices: [[verb, label, tone]],
  });
  if (agreed === "resolve") return resolveStep(task, step);
  if (!agreed) return;
  const after = await post(["tasks", task.id, verb], force ? { force } : {});
  done(`Task ${task.id} is ${words(after.status)}.`);
}

const askToResolve = (task, step) => ask({
  title: `Resolve step ${step.name} first?`,
  text: `Step ${step.name} was begun and not ended, and its repeat rule is “once”: only a person can say whether it happened. Until then, a retry blocks the task again.`,
  type: `relight step resolve ${step.name} --task ${task.id}${occurrence(step)} --happened`,
  choices: [["retry", "Retry anyway", ""], ["resolve", "Resolve …", "primary"]],
});

export async function changeSession(session, verb) {
  const label = verb === "resume" ? "Resume" : "Suspend";
  const text = verb === "resume" ? "Its gateway may take it up again." : "Its gateway leaves it alone until a person resumes it.";
  const agreed = await ask({ title: `${label} ${session.key}?`, text, type: `relight session ${verb} ${session.key}`, choices: [[verb, label, "primary"]] });
  if (!agreed) return;
  const after = await post(["sessions", session.key, verb]);
  done(`Session ${session.key} is ${words(after.state)}.`);
}

export async function changeNode(node) {
  const cancel = node.state === "draining";
  const label = cancel ? "Undrain" : "Drain";
  const text = cancel ? "It takes things up again." : "It takes nothing new. What runs there continues; once it ends, it continues elsewhere.";
  const agreed = await ask({ title: `${label} ${node.name}?`, text, type: `relight node drain ${node.name}${cancel ? " --cancel" : ""}`, choices: [["yes", label, "primary"]] });
  if (!agreed) return;
  const after = await post(["nodes", node.name, "drain"], { cancel });
  done(`Node ${node.name} is ${words(after.state)}.`);
}

function done(text) {
  say(text, "toast");
  dispatchEvent(new Event("relight-acted"));
}
