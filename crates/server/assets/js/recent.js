// What died lately, why, and whether it came back: one line a death.
import { get } from "./api.js";
import { now, setTime, time } from "./clock.js";
import { el, keyed, setText, skeleton } from "./dom.js";
import { icon } from "./icons.js";
import { card, chip, empty, setChip, subjectLink } from "./parts.js";
import { duration } from "./text.js";
import { CAUSES, isCrash } from "./words.js";

const DAY_MS = 86_400_000;
const SHOWN = 7;

export function recentCard(scope) {
  const list = el("ul", { class: "recent" });
  const none = el("div", { hidden: true }, empty("No agent crashed in the last 24 hours.", null));
  skeleton(list, SHOWN);
  scope.refresh(async () => {
    const since = new Date(now() - DAY_MS).toISOString();
    const page = await get(["attempts"], { since, newest: true, limit: 40 }).catch(() => null);
    if (!page) return;
    const deaths = lately(page.items);
    keyed(list, deaths, (death) => `${death.agent} ${death.number}`, make, fill);
    list.hidden = deaths.length === 0;
    none.hidden = deaths.length > 0;
  }, { concerns: (event) => event.kind.startsWith("attempt."), gap_ms: 1000 });
  return card("Died and came back", { class: "area-recent" }, list, none);
}

/** Crashes, newest first, each with the attempt that came after it. */
function lately(attempts) {
  const by_number = new Map(attempts.map((one) => [`${one.agent} ${one.number}`, one]));
  return attempts
    .filter((one) => one.ended_at && isCrash(one.cause))
    .sort((a, b) => b.ended_at.localeCompare(a.ended_at))
    .slice(0, SHOWN)
    .map((one) => ({ ...one, after: by_number.get(`${one.agent} ${one.number + 1}`) ?? null }));
}

function make(death) {
  return el("li", {}, chip(CAUSES, death.cause), el("div", {}, subjectLink("agent", death.agent, { class: "agent-text" }), time(death.ended_at)),
    el("span", { class: "back" }, icon("again"), el("span")));
}

function fill(node, death) {
  const [cause, who, back] = node.children;
  setChip(cause, CAUSES, death.cause);
  setTime(who.lastChild, death.ended_at);
  back.classList.toggle("is-back", Boolean(death.after));
  const took = death.after ? Date.parse(death.after.begun_at) - Date.parse(death.ended_at) : 0;
  setText(back.lastChild, death.after ? `back in ${duration(took)}` : "not back");
}
