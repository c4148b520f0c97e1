// The fixed words of Relight, each with its icon and tone. A word that is not here is shown as it is;
// without a prototype, "constructor" is such a word too.
import { words } from "./text.js";

export const VIEWS = ["overview", "timeline", "tasks", "sessions", "events"];

/** Every kind of event; EventSource hears only kinds that were asked for. */
export const KINDS = [
  "step.begun", "step.done", "step.failed", "step.resolved", "step.skipped", "step.cleared", "step.parked",
  "task.created", "task.status", "task.assigned", "task.context", "task.changed", "task.forgotten", "task.recovery", "task.budget",
  "lease.taken", "lease.ended", "fence.raised", "checkpoint.damaged", "checkpoint.imported",
  "agent.created", "agent.changed", "agent.state", "agent.budget", "agent.session", "agent.iteration", "agent.taken", "agent.left", "agent.wish",
  "attempt.begun", "attempt.started", "attempt.died", "alert", "recovered", "boot.loop",
  "session.begun", "session.ended", "session.state", "drain", "audit", "node",
];

export const AGENT_STATES = {
  __proto__: null,
  running: ["play", "good"], crashed: ["bolt", "bad"], suspended: ["pause", "warn"],
  terminated: ["cross", "bad"], stopped: ["square", "calm"], created: ["circle", "info"],
};
/** As they are shown: one of a pool that waits for a task is stopped for the record only. */
const { running, ...others } = AGENT_STATES;
export const AGENT_LOOKS = { __proto__: null, running, idle: ["clock", "info"], ...others };
export const agentLook = (agent) => (agent.idle ? "idle" : agent.state);

export const TASK_STATUSES = {
  __proto__: null,
  created: ["circle", "calm"], assigned: ["person", "info"], in_progress: ["play", "good"], in_review: ["eye", "info"],
  blocked: ["hand", "warn"], deferred: ["clock", "warn"], interrupted: ["bolt", "bad"], suspended: ["pause", "warn"],
  failed: ["cross", "bad"], completed: ["check", "good"], cancelled: ["slash", "calm"],
};

export const SESSION_STATES = {
  __proto__: null,
  active: ["play", "good"], resume_pending: ["again", "info"], suspended: ["pause", "warn"],
  expired: ["clock", "calm"], idle: ["circle", "calm"],
};

/** A state that is only recorded, because its owner is gone, does not look like one that is true. */
export const SESSION_LOOKS = { ...SESSION_STATES, owner_gone: ["bolt", "warn"] };
export const sessionLook = ({ state, owner }) => (owner && !owner.alive ? ["owner_gone", `${words(state)} (owner gone)`] : [state]);

export const STEP_STATES = { __proto__: null, done: ["check", "good"], begun: ["play", "info"], failed: ["cross", "bad"], skipped: ["slash", "calm"], in_doubt: ["doubt", "warn"], waiting: ["circle", "calm"] };

export const NEEDS = {
  __proto__: null,
  in_doubt: ["doubt", "warn"], blocked: ["hand", "warn"], parked: ["pause", "warn"],
  terminated: ["cross", "bad"], given_up: ["cross", "bad"], suspended: ["pause", "warn"],
};

/** Causes of death: icon, tone, letter on the timeline, and whether it was a crash. */
export const CAUSES = {
  __proto__: null,
  failed: ["cross", "bad", "F", true], signal: ["bolt", "bad", "S", true], oom: ["memory", "bad", "M", true],
  hung: ["hourglass", "bad", "H", true], timeout: ["clock", "bad", "T", true], lost: ["doubt", "bad", "L", true],
  deferred: ["clock", "warn", "D", false], stopped: ["square", "calm", "■", false], completed: ["check", "good", "✓", false],
};

export const isCrash = (cause) => CAUSES[cause]?.[3] ?? true;
export const crashCauses = Object.keys(CAUSES).filter(isCrash);
export const calmCauses = Object.keys(CAUSES).filter((cause) => !isCrash(cause));
