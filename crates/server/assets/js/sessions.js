// Conversations with turns that can be cut off. All of a state are fetched, as far as the limit goes, so that they can be sorted and searched.
import { sessionButton } from "./verbs.js";
import { getAll } from "./api.js";
import { setTime, time } from "./clock.js";
import { el, keyed, replace, setText, skeleton } from "./dom.js";
import { card, chip, comparison, empty, pager, searchBox, setChip, sortHeads, subjectLink, table, tabs } from "./parts.js";
import { filters, setFilters } from "./route.js";
import { count } from "./text.js";
import { SESSION_LOOKS, SESSION_STATES, sessionLook } from "./words.js";

export const title = "Sessions";

const PAGE = 50;
const SESSIONS_MAX = 5000;
const ORDER = Object.keys(SESSION_STATES);
const COLUMNS = [["key", "Session"], ["state", "State"], ["generation", "Generation"], ["owner", "Owner"], ["since", "Since"], [null, "Actions", true]];
const SORT = { __proto__: null, key: (one) => one.key, state: (one) => ORDER.indexOf(one.state), generation: (one) => one.generation, owner: (one) => one.owner?.text, since: (one) => Date.parse(one.since) };

export function mount(root, scope) {
  const asked = filters();
  let state = asked.state in SESSION_STATES ? asked.state : "";
  let find = asked.find?.toLowerCase() ?? "";
  let sort = asked.sort?.replace("-", "") in SORT ? asked.sort : "key";
  let counts = null;
  let items = null;
  let more = false;
  let page_number = 0;
  const list = table("Sessions", sortHeads(COLUMNS, sort, (chosen) => { sort = chosen; change(); show(); }, ["generation", "since"]), 6);
  const none = el("div", { hidden: true });
  const note = el("p", { class: "soft pad note", hidden: true, text: `Only the first ${count(SESSIONS_MAX)} by name are listed.` });
  const pages = pager((by) => { page_number += by; show(); });
  const choice = tabs("Show sessions by state", ORDER, (chosen) => {
    state = chosen;
    change();
    choice.show(counts ?? {}, state);
    skeleton(list.body, 6, COLUMNS.length);
    fetch();
  });
  const search = searchBox("Find a session", (text) => { find = text.toLowerCase(); change(); show(); }, asked.find);
  root.append(card("Sessions", { end: search }, choice.node, note, el("div", { class: "scroll" }, list.node), none, pages.node));
  scope.on("stats", (stats) => { counts = stats.sessions; choice.show(counts, state); });

  function change() {
    page_number = 0;
    setFilters({ state, find, sort: sort === "key" ? null : sort });
  }

  async function fetch() {
    const wanted = state;
    const page = await getAll(["sessions"], { state }, SESSIONS_MAX).catch(() => null);
    if (!page || wanted !== state || scope.ended) return;
    ({ items, more } = page);
    show();
  }

  function show() {
    if (!items) return;
    const found = items.filter((one) => !find || [one.key, one.session_id, one.owner?.text, one.reason].some((part) => part?.toLowerCase().includes(find)));
    const shown = found.sort(comparison(SORT, sort, SORT.key)).slice(page_number * PAGE, (page_number + 1) * PAGE);
    keyed(list.body, shown, (session) => session.key, makeRow, fillRow);
    note.hidden = !more;
    list.node.hidden = !shown.length;
    none.hidden = shown.length > 0;
    if (!shown.length) replace(none, state || find ? empty("No session matches.") : empty("No sessions yet. A gateway marks each turn:", "relight session begin KEY --id ID"));
    pages.show(`${page_number * PAGE + 1}–${page_number * PAGE + shown.length} of ${count(found.length)}`, page_number > 0, (page_number + 1) * PAGE < found.length);
  }
  scope.refresh(fetch, { concerns: (event) => event.kind.startsWith("session"), gap_ms: 800, every_ms: 15_000 });
}

function makeRow(session) {
  return el("tr", { data: { session: session.key } },
    el("td", {}, subjectLink("session", session.key, { class: "agent-text name" }), el("small", { class: "agent-text" })),
    el("td", {}, chip(SESSION_LOOKS, ...sessionLook(session)), el("small", { class: "agent-text" })),
    el("td", { class: "tabular", data: { label: "generation" } }), el("td", { class: "agent-text", data: { label: "owner" } }), el("td", {}, time(session.since)), el("td"));
}

function fillRow(row, session) {
  const [key, state, generation, owner, since, action] = row.children;
  setText(key.lastChild, session.session_id);
  setChip(state.firstChild, SESSION_LOOKS, ...sessionLook(session));
  setText(state.lastChild, session.reason);
  setText(generation, session.generation);
  setText(owner, session.owner?.text ?? "–");
  owner.classList.toggle("blank", !session.owner);
  setTime(since.firstChild, session.since);
  if (action.dataset.state === session.state) return;
  action.dataset.state = session.state;
  replace(action, session.state !== "expired" && sessionButton(session));
}
