// One event of the journal, in words and as it was recorded.
import { get } from "./api.js";
import { full } from "./clock.js";
import { el, replace } from "./dom.js";
import { card, empty, facts, subjectLink } from "./parts.js";
import { at, placeOf } from "./route.js";
import { story } from "./story.js";

export const title = "Event";

export function mount(root, scope, name, heading) {
  const id = Number(name);
  const body = el("div");
  root.append(body);
  if (!Number.isSafeInteger(id) || id < 1) return replace(body, empty("Events have numbers.", "relight events"));
  load(body, id).catch((error) => scope.ended || error.status != null || replace(body, empty(`There is no event ${id}: it was pruned, or is yet to come.`, "relight events")));
}

async function load(body, id) {
  const { items } = await get(["events"], { after: id - 1, limit: 2 });
  const [event, next] = items[0]?.id === id ? items : [null];
  if (!event) throw new Error("no such event");
  replace(body, card(event.kind, { end: el("div", { class: "filters" }, id > 1 && el("a", { href: placeOf("event", String(id - 1)), text: "‹ before" }), next && el("a", { href: placeOf("event", String(next.id)), text: "after ›" })) },
    el("p", { class: "pad story" }, ...story(event)),
    facts([["Time", full(event.at)], ["Agent", event.agent && subjectLink("agent", event.agent)], ["Task", event.task && subjectLink("task", event.task)],
      ["Step", event.step && (event.task ? el("a", { href: at("tasks", event.task, "steps", event.step), class: "agent-text", text: event.step }) : event.step)], ["Fence", event.fence]]),
    el("h3", { class: "pad", text: "As recorded" }), el("pre", { class: "log agent-text", tabindex: 0, "aria-label": "Detail of the event", text: JSON.stringify(event.detail ?? {}, null, 2) })));
}
