// What an event says, in words: "Step draft finished", "Attempt 3 of writer died: signal, after 4 min".
import { full } from "./clock.js";
import { el } from "./dom.js";
import { chip } from "./parts.js";
import { placeOf } from "./route.js";
import { count, duration, ending, flat, money, stepName, words } from "./text.js";
import { AGENT_STATES, CAUSES, SESSION_STATES, TASK_STATUSES, isCrash } from "./words.js";

/** Who has a lease. `names` tells the agent and the number of an attempt by its tag, where they are known. */
export function who(holder, names) {
  if (!holder) return "nobody";
  const { kind, by, pid, attempt } = holder;
  if (kind === "attempt") return names?.get(attempt) ?? attempt.replace(/^(.+)\.(\d+)\.[0-9a-f]+$/, "$1 #$2");
  return kind === "process" ? `process ${pid}` : by ?? "somebody";
}

const change = (states) => ({ from, to, reason, why }) => ["Status changed: ", from && chip(states, from), from && " → ", to && chip(states, to), (reason ?? why) && ` ${reason ?? why}`];
const text = (value) => el("span", { class: "agent-text", text: value });
const step = (event) => el("b", { class: "agent-text", text: stepName(event.step ?? event.detail.step) || "a step" });
const exit = ({ exit_code }) => (exit_code ? ` with exit ${exit_code}` : "");

const STORIES = {
  __proto__: null,
  "step.begun": (event) => [event.detail.tool ? `Call of ${event.detail.tool} began: ` : "Step ", step(event), event.detail.tool ? "" : " began"],
  "step.done": (event) => ["Step ", step(event), " finished", exit(event.detail)],
  "step.failed": (event) => ["Step ", step(event), " failed", exit(event.detail)],
  "step.resolved": (event) => ["A person said that step ", step(event), event.detail.happened ? " happened; it is not run again" : " did not happen; it may run again"],
  "step.skipped": (event) => ["Step ", step(event), " was skipped", event.detail.reason && ": ", event.detail.reason && text(event.detail.reason)],
  "step.cleared": () => ["All steps were cleared"],
  "step.parked": (event) => ["Step ", step(event), ` was parked: it died with its supervisor ${event.detail.died_with_supervisor ?? ""} times`],
  "task.created": ({ detail }) => ["Task added", detail.title && ": ", detail.title && text(detail.title), detail.agent && `, for ${detail.agent}`],
  "task.status": (event) => change(TASK_STATUSES)(event.detail),
  "task.assigned": ({ detail }) => [detail.agent ? `Assigned to ${detail.agent}` : detail.retries != null ? `Retry ${detail.retries}` : detail.pinned != null ? (detail.pinned ? "Belongs to its agent from now on" : "Open to every agent from now on")
    : detail.started_without_agent ? "Started by somebody who is no agent" : "Assigned to nobody"],
  "task.context": ({ detail }) => ["Context set: ", text(Object.entries(detail.set ?? {}).map(([name, value]) => `${name} = ${value}`).join(", "))],
  "task.changed": ({ detail }) => [detail.not_before ? `Not before ${full(detail.not_before)}` : detail.steps != null ? `${detail.steps} steps declared` : detail.replaced ? "Replaced by a new workflow of this name"
    : "not_before" in detail ? "May start at once" : "Notes changed", detail.notes && ": ", detail.notes && text(detail.notes), detail.handoff_to && `, for ${detail.handoff_to}`],
  "task.forgotten": ({ detail }) => [`Task ${detail.task ?? ""} was removed by prune`],
  "task.recovery": ({ detail }) => [`Recovery: ${words(detail.outcome ?? detail.decision ?? "decided")}`, detail.reason && ", ", detail.reason && text(detail.reason)],
  "agent.budget": ({ detail }) => spent(detail.spent ?? {}),
  "task.budget": ({ detail }) => (detail.spent ? spent(detail.spent) : ["Recoveries without progress: ", String(detail.tally?.recoveries ?? 0)]),
  "lease.taken": ({ detail }, names) => [text(who(detail.holder, names)), " took the task", detail.ttl_ms ? ` for ${duration(detail.ttl_ms)}` : ""],
  "lease.ended": ({ detail }, names) => [text(who(detail.holder, names)), " no longer has the task"],
  "fence.raised": ({ detail }, names) => ["A person took the task from ", text(who(detail.holder, names))],
  "checkpoint.imported": ({ detail }) => [`Taken in from the file ${detail.file ?? ""}`],
  "checkpoint.damaged": ({ detail }) => [`The damaged file ${detail.file ?? ""} was set aside: `, text(detail.reason ?? "")],
  "agent.created": ({ detail }) => ["Agent added", detail.command?.length ? ": " : "", text((detail.command ?? []).join(" "))],
  "agent.changed": ({ detail }) => (detail.forgotten ? [`Agent ${detail.forgotten} was removed by prune`] : !("task" in detail) ? ["Configuration changed"]
    : detail.task ? ["Given the task ", el("a", { href: placeOf("task", detail.task), class: "agent-text", text: detail.task })] : ["No longer has a task"]),
  "agent.state": ({ detail }) => {
    const { from, to, why, by, again_at, until, ending } = detail;
    if (from === to && to === "running") return [ending ? `Told to end: ${words(ending)}` : "The next attempt began at once"];
    return ["State changed: ", from && chip(AGENT_STATES, from), from && " → ", to && chip(AGENT_STATES, to), why && ` ${typeof why === "string" ? words(why) : flat(why)}`,
      by && ` by ${by === "itself" ? "itself" : `a ${by}`}`, again_at && `, again at ${full(again_at)}`, until && `, until ${full(until)}`];
  },
  "agent.session": ({ detail }) => [detail.findings ? "Transcript repaired before the resume: " : detail.session ? "Its own session is " : "Its own session is unknown again", text(detail.session ?? "")],
  "agent.iteration": ({ detail }) => [`Round ${detail.iteration} ended`],
  "agent.taken": ({ detail }) => ["Supervised by ", text(who(detail.holder)), detail.holder?.node && ` on ${detail.holder.node}`],
  "agent.left": () => ["Its supervisor let go of it"],
  "agent.wish": ({ detail }) => [`${words(detail.progress ?? "asked")}: ${detail.verb ?? ""}`, detail.by && ` by ${detail.by}`],
  "attempt.begun": ({ detail }) => [`Attempt ${detail.number} began`],
  "attempt.started": ({ detail }) => [`Attempt ${detail.number} runs as process ${detail.pid}`],
  "attempt.died": ({ detail }) => [`Attempt ${detail.number} ${isCrash(detail.cause) ? "died" : "ended"}: `, chip(CAUSES, detail.cause), ` ${ending(detail.how ?? {})} after ${duration(detail.lived_ms)}`, detail.note && ", ", detail.note && text(detail.note)],
  alert: ({ detail }) => [text(detail.text ?? words(detail.alert ?? "alert")), detail.hint && " ", detail.hint && el("code", { class: "agent-text", text: detail.hint })],
  recovered: (event) => (event.detail.store ? ["The store was restored from a backup"] : ["Step ", step(event), " died with its supervisor; its repeat rule decides"]),
  "boot.loop": ({ detail }) => [`The machine went down soon after ${detail.boots?.length ?? detail.boots ?? "several"} starts; nothing was resumed`],
  audit: ({ detail }) => [`Access refused: ${typeof detail.what === "string" ? detail.what : flat(detail.counts ?? detail)}`],
  "session.begun": ({ detail }) => ["Turn ", String(detail.generation), " of ", session(detail.session), " began"],
  "session.ended": ({ detail }) => ["Turn ", String(detail.generation), " of ", session(detail.session), detail.discarded ? " was discarded by its owner" : " ended"],
  "session.state": ({ detail }) => [session(detail.session), ": ", ...change(SESSION_STATES)(detail).slice(1)],
  node: ({ detail }) => [`Node ${detail.node ?? detail.name ?? ""} ${words(detail.what ?? detail.change ?? detail.state ?? "changed")}`],
  drain: ({ detail }) => [detail.cancelled || detail.ended ? "The drain ended; work is given out again" : "A drain began: nothing new is started"],
};

const session = (key) => el("a", { href: placeOf("session", String(key)), class: "agent-text", text: key });

/** Nodes and texts. Kinds without words of their own, and data that is not as expected, are shown flat. */
export function story(event, names) {
  const safe = { ...event, detail: event.detail ?? {} };
  try {
    const parts = STORIES[event.kind]?.(safe, names);
    if (parts) return parts.filter((part) => part != null && part !== false && part !== "").map((part) => (part instanceof Node ? part : text(part)));
  } catch {
    // Of another version: shown as it is.
  }
  return [event.step && step(safe), text(flat(safe.detail))].filter(Boolean);
}

function spent({ cost_micros = 0, turns, input_tokens = 0, output_tokens = 0 }) {
  const tokens = input_tokens + output_tokens;
  return [`Spent ${money(cost_micros / 1e6)}`, turns ? ` in ${turns} turns` : "", tokens ? `, ${count(tokens)} tokens` : ""];
}
