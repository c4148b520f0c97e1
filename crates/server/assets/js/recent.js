// What died lately, why, and whether it came back: one line a death, kept up by the events themselves.
import { newestEvents } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, setText, skeleton } from "./dom.js";
import { icon } from "./icons.js";
import { card, chip, empty, setChip, subjectLink } from "./parts.js";
import { duration } from "./text.js";
import { CAUSES, isCrash } from "./words.js";

const SHOWN = 7;
const FETCHED = 30;
const KEPT_MAX = 200;

export function recentCard(scope) {
  const list = el("ul", { class: "recent" });
  const none = el("div", { hidden: true }, empty("No agent has crashed."));
  let died = null;
  let begun = [];
  skeleton(list, SHOWN);
  const show = () => {
    const deaths = lately(died, begun);
    keyed(list, deaths, (death) => death.id, make, fill);
    list.hidden = deaths.length === 0;
    none.hidden = deaths.length > 0;
  };
  const load = async () => {
    const items = await newestEvents({ kind: "attempt.died,attempt.begun" }, FETCHED).catch(() => null);
    if (!items) return;
    [died, begun] = ["attempt.died", "attempt.begun"].map((kind) => items.filter((event) => event.kind === kind));
    show();
  };
  load();
  scope.on("refetch", load);
  scope.on("events", (events) => {
    if (!died || !events.some((event) => event.kind.startsWith("attempt."))) return;
    const fresh = (kind, before) => [...events.filter((event) => event.kind === kind).reverse(), ...before].slice(0, KEPT_MAX);
    [died, begun] = [fresh("attempt.died", died), fresh("attempt.begun", begun)];
    show();
  });
  return card("Died and came back", {}, list, none);
}

/** Crashes, newest first, each with the beginning of the next attempt; `null` when nothing tells. */
function lately(died, begun) {
  const next = new Map(begun.map((event) => [`${event.agent} ${event.detail?.number}`, event.at]));
  const horizon = begun.at(-1)?.id ?? 0;
  return died.filter((event) => event.detail && isCrash(event.detail.cause)).slice(0, SHOWN).map((event) => ({
    id: event.id, agent: event.agent, cause: event.detail.cause, at: event.detail.died_at ?? event.at, down_since: event.detail.down_since ?? event.at,
    back_at: next.get(`${event.agent} ${event.detail.number + 1}`) ?? null, known: event.id > horizon,
  }));
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
  setText(back.lastChild, death.back_at ? `back in ${duration(took)}` : death.known ? "not back" : "");
}
