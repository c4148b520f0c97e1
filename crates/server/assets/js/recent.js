// What died lately, why, and whether it came back: one line a death, kept up by the events themselves.
import { eventsBefore, newestEvents } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, replace, setText, skeleton } from "./dom.js";
import { icon } from "./icons.js";
import { card, chip, empty, setChip, subjectLink } from "./parts.js";
import { restOf } from "./rest.js";
import { duration } from "./text.js";
import { CAUSES, isCrash } from "./words.js";

const SHOWN = 7;
const EVENTS_FIRST = 30;
const EVENTS_PAGE = 500; // behind the many clean ends of a pool
const EVENTS_MAX = 2500;
const KINDS = { kind: "attempt.died,attempt.begun" };

export function recentCard(scope) {
  const list = el("ul", { class: "recent" });
  const none = el("div", { hidden: true });
  let crashes = null; // newest first
  let rest = new Map(); // by agent, of those that are not back
  skeleton(list, SHOWN);
  const show = () => {
    keyed(list, crashes.map((crash) => ({ ...crash, rest: rest.get(crash.agent) })), (crash) => crash.id, make, fill);
    list.hidden = crashes.length === 0;
    none.hidden = crashes.length > 0;
  };
  const look = async () => {
    const away = [...new Set(crashes.filter((crash) => !crash.back_at).map((crash) => crash.agent))];
    const found = await Promise.all(away.map(async (agent) => [agent, await restOf(agent)]));
    if (scope.ended) return;
    rest = new Map(found);
    show();
  };
  const load = async () => {
    const found = await latestCrashes().catch(() => null);
    if (!found || scope.ended) return;
    crashes = found.crashes;
    replace(none, empty(found.is_all ? "No agent has crashed." : "No agent has crashed lately."));
    look();
  };
  load();
  scope.on("refetch", load);
  scope.on("events", (events) => {
    if (!crashes || !events.some((event) => event.kind.startsWith("attempt.") || (event.kind === "agent.state" && rest.has(event.agent)))) return;
    for (const event of events) crashes = withEvent(crashes, event);
    look();
  });
  return card("Died and came back", {}, list, none);
}

/** `is_all`: there are no older events that could tell of more. */
async function latestCrashes() {
  let [events, page, limit] = [[], [], EVENTS_FIRST];
  do {
    page = events.length ? await eventsBefore(KINDS, limit, events.at(-1).id) : await newestEvents(KINDS, limit);
    events = [...events, ...page];
    const crashes = events.toReversed().reduce(withEvent, []);
    const is_all = page.length < limit;
    if (is_all || crashes.length >= SHOWN || events.length >= EVENTS_MAX) return { crashes, is_all };
    limit = EVENTS_PAGE;
  } while (true);
}

/** A crash stands first; the next attempt of its agent says that it is back. */
function withEvent(crashes, event) {
  const { number, cause, died_at, down_since } = event.detail ?? {};
  if (event.kind === "attempt.begun") return crashes.map((crash) => (crash.agent === event.agent && crash.number + 1 === number ? { ...crash, back_at: event.at } : crash));
  if (event.kind !== "attempt.died" || !event.detail || !isCrash(cause) || crashes.some((crash) => crash.id === event.id)) return crashes;
  return [{ id: event.id, agent: event.agent, number, cause, at: died_at ?? event.at, down_since: down_since ?? event.at, back_at: null }, ...crashes].slice(0, SHOWN);
}

function make(death) {
  return el("li", {}, chip(CAUSES, death.cause),
    el("div", {}, subjectLink("agent", death.agent, { class: "agent-text" }), time(death.at)),
    el("span", { class: "back" }, icon("again"), el("span")));
}

function fill(node, death) {
  const [cause, who, back] = node.children;
  setChip(cause, CAUSES, death.cause);
  setTime(who.lastChild, death.at);
  back.classList.toggle("is-back", Boolean(death.back_at));
  const took = Date.parse(death.back_at) - Date.parse(death.down_since);
  setText(back.lastChild, death.back_at ? `back in ${duration(took)}` : death.rest ?? "not back");
  back.classList.toggle("soft", Boolean(death.rest));
}
