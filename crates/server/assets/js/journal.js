// A table of events, newest first; used by the events view and by the pages of agents and tasks.
import { time } from "./clock.js";
import { el, keyed, replace } from "./dom.js";
import { chip, subjectLink, table } from "./parts.js";
import { ending, flat, stepName } from "./text.js";
import { AGENT_STATES, CAUSES, SESSION_STATES, TASK_STATUSES } from "./words.js";

const STATES = { __proto__: null, task: TASK_STATUSES, session: SESSION_STATES };

/** `whose` leaves out the column that says of what it is. */
export function journal(rows, whose = true) {
  const { node, body } = table("Events, newest first", ["Time", "Kind", "Of", "What"], rows);
  node.classList.add("journal", whose ? "wide" : "narrow");
  return { node, show: (events) => keyed(body, events, (event) => event.id, makeRow, () => {}) };
}

function makeRow(event) {
  const tone = event.kind === "alert" || event.kind === "boot.loop" ? "bad" : event.kind.split(".")[0];
  return el("tr", {},
    el("td", {}, time(event.at, "at"), el("small", { class: "tabular", text: `#${event.id}` })),
    el("td", {}, el("span", { class: `kind ${tone}`, text: event.kind })),
    el("td", { class: "agent-text" }, event.agent && subjectLink("agent", event.agent), event.agent && event.task && " ", event.task && subjectLink("task", event.task)),
    what(event));
}

/** Changes as chips, so that they can be told apart at a glance; all else as name=value. */
function what(event) {
  const cell = el("td", { class: "what" });
  if (event.kind === "alert" && event.detail?.text) {
    const { text, hint } = event.detail;
    replace(cell, el("span", { class: "agent-text", text }), hint && el("span", { class: "soft agent-text", text: hint }));
    return cell;
  }
  const { from, to, cause, reason, why, ...rest } = event.detail ?? {};
  const states = STATES[event.kind.split(".")[0]] ?? AGENT_STATES;
  const step = stepName(event.step);
  replace(cell,
    step && el("span", { class: "agent-text", text: step }),
    from && to && chip(states, from), from && to && el("span", { text: "→", "aria-label": "to" }), to && chip(states, to),
    cause && chip(CAUSES, cause), cause && el("span", { text: ending(rest.how ?? {}) }),
    (reason ?? why) && el("span", { class: "agent-text", text: reason ?? why }),
    el("span", { class: "soft agent-text", text: flat(cause ? { ...rest, how: null } : rest) }));
  return cell;
}
