// Conversations with turns that can be cut off.
import { sessionButton } from "./verbs.js";
import { get } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, replace, setText, skeleton } from "./dom.js";
import { card, chip, empty, pager, setChip, table, tabs } from "./parts.js";
import { SESSION_STATES } from "./words.js";

export const title = "Sessions";

const PAGE = 50;
const HEADINGS = ["Session", "State", "Generation", "Owner", "Since", ""];

export function mount(root, scope) {
  let state = "";
  let counts = null;
  let page_number = 0;
  let cursors = [null];
  const list = table("Sessions", HEADINGS, 6);
  const none = el("div", { hidden: true });
  const pages = pager((by) => { page_number += by; fetch(); });
  const choice = tabs("Show sessions by state", Object.keys(SESSION_STATES), (chosen) => {
    [state, page_number, cursors] = [chosen, 0, [null]];
    choice.show(counts ?? {}, state);
    list.node.hidden = false;
    none.hidden = true;
    skeleton(list.body, 6, HEADINGS.length);
    fetch();
  });
  root.append(card("Sessions", {}, choice.node, el("div", { class: "scroll" }, list.node), none, pages.node));
  scope.on("stats", (stats) => { counts = stats.sessions; choice.show(counts, state); });

  async function fetch() {
    const asked = state;
    const page = await get(["sessions"], { state, limit: PAGE, after: cursors[page_number] }).catch(() => null);
    if (!page || asked !== state) return;
    if (page.next) cursors[page_number + 1] = page.next;
    keyed(list.body, page.items, (session) => session.key, makeRow, fillRow);
    list.node.hidden = !page.items.length;
    none.hidden = page.items.length > 0;
    if (!page.items.length) replace(none, state ? empty("No session is in this state.") : empty("No sessions yet. A gateway marks each turn:", "relight session begin KEY --id ID"));
    pages.show(`page ${page_number + 1}`, page_number > 0, Boolean(page.next));
  }
  scope.refresh(fetch, { concerns: (event) => event.kind.startsWith("session"), gap_ms: 800, every_ms: 15_000 });
}

function makeRow(session) {
  return el("tr", {},
    el("td", {}, el("b", { class: "agent-text", text: session.key }), el("small", { class: "agent-text" })),
    el("td", {}, chip(SESSION_STATES, session.state), el("small", { class: "agent-text" })),
    el("td", { class: "tabular", data: { label: "generation" } }), el("td", { class: "agent-text", data: { label: "owner" } }), el("td", {}, time(session.since)), el("td"));
}

function fillRow(row, session) {
  const [key, state, generation, owner, since, action] = row.children;
  setText(key.lastChild, session.session_id);
  setChip(state.firstChild, SESSION_STATES, session.state);
  setText(state.lastChild, session.reason);
  setText(generation, session.generation);
  setText(owner, session.owner?.text ?? "–");
  owner.classList.toggle("blank", !session.owner);
  setTime(since.firstChild, session.since);
  if (action.dataset.state === session.state) return;
  action.dataset.state = session.state;
  replace(action, session.state !== "expired" && sessionButton(session));
}
