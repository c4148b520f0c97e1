// A table of events, newest first; used by the events view and by the pages of agents and tasks.
import { time } from "./clock.js";
import { el, keyed } from "./dom.js";
import { subjectLink, table } from "./parts.js";
import { placeOf } from "./route.js";
import { story } from "./story.js";

/** Without `whose` there is no column that says of what it is. `names` answers who has which attempt. */
export function journal(rows, whose = true, names = null) {
  const { node, body } = table("Events, newest first", ["Time", "Kind", "Of", "What"], rows);
  node.classList.add("journal", whose ? "wide" : "narrow");
  return { node, show: (events) => keyed(body, events, (event) => event.id, (event) => makeRow(event, names?.()), () => {}) };
}

function makeRow(event, names) {
  const tone = event.kind === "alert" || event.kind === "boot.loop" ? "bad" : event.kind.split(".")[0];
  return el("tr", {},
    el("td", {}, el("a", { href: placeOf("event", String(event.id)), class: "plain", title: `Event ${event.id}` }, time(event.at, "at"), el("small", { class: "tabular", text: `#${event.id}` }))),
    el("td", {}, el("span", { class: `kind ${tone}`, text: event.kind })),
    el("td", { class: "agent-text" }, event.agent && subjectLink("agent", event.agent), event.agent && event.task && " ", event.task && subjectLink("task", event.task)),
    el("td", { class: "what" }, ...story(event, names)));
}
