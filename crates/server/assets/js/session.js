// The page of one session: its state, its turn, and what happened to it.
import { get, newestEvents } from "./api.js";
import { time } from "./clock.js";
import { el, replace } from "./dom.js";
import { journal } from "./journal.js";
import { card, chip, empty, facts, subjectLink } from "./parts.js";
import { sessionButton } from "./verbs.js";
import { SESSION_LOOKS, sessionLook } from "./words.js";

export const title = "Session";

const LOOKED_THROUGH = 500; // events cannot be asked for by session

export function mount(root, scope, key, heading) {
  const top = el("div", { class: "page-top" });
  const about = el("div");
  const past = journal(3, false);
  const none = el("div", { hidden: true }, empty("Nothing of it is among the newest events."));
  root.append(top, card("About", {}, about), el("div", { class: "spaced" }, card("What happened", {}, el("div", { class: "scroll" }, past.node), none)));
  scope.refresh(async () => {
    try {
      const [session, events] = await Promise.all([get(["sessions", key]), newestEvents({ kind: "session.begun,session.ended,session.state" }, LOOKED_THROUGH)]);
      if (scope.ended) return;
      show(session, top, about);
      const own = events.filter((event) => event.detail?.session === key);
      past.show(own);
      past.node.hidden = !own.length;
      none.hidden = own.length > 0;
    } catch (error) {
      if (error.status === 404 || error.status === 422) replace(root, root.querySelector(".crumbs"), heading, empty("There is no such session.", "relight session list"));
    }
  }, { concerns: (event) => event.detail?.session === key, gap_ms: 500, every_ms: 15_000 });
}

function show(session, top, about) {
  const state_key = JSON.stringify(session);
  if (top.dataset.key === state_key) return;
  top.dataset.key = state_key;
  replace(top, chip(SESSION_LOOKS, ...sessionLook(session)), session.reason && el("span", { class: "soft agent-text", text: session.reason }),
    el("div", { class: "filters end" }, session.state !== "expired" && sessionButton(session)));
  const more = Object.entries(session.context ?? {}).map(([name, value]) => [name, String(value)]);
  replace(about, facts([["Conversation", session.session_id], ["Generation", session.generation], ["Owner", session.owner?.text], ["Owner lives", session.owner && (session.owner.alive ? "yes" : "no")],
    ["Agent", session.agent && subjectLink("agent", session.agent)], ["Deaths in a row", session.deaths_in_a_row], ["Since", time(session.since)], ["Begun", session.started_at && time(session.started_at)], ...more]));
}
