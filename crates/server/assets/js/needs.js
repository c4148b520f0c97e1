// What needs a person, first of all: each with the command to type and, where one exists, a button.
import { get } from "./api.js";
import { agentButton, agentVerbs, inDoubt, resolveButton, sessionButton, taskButton, taskVerbs } from "./verbs.js";
import { setTime, time } from "./clock.js";
import { el, keyed, replace, setText, skeleton } from "./dom.js";
import { sayError } from "./notice.js";
import { button, card, chip, empty, hint, subjectLink } from "./parts.js";
import { go, placeOf } from "./route.js";
import { count } from "./text.js";
import { NEEDS } from "./words.js";

const SHOWN = 4;

export function needsCard(scope) {
  const list = el("ul", { class: "needs" });
  const more = button("", () => { open = !open; show(); }, { class: "quiet more", hidden: true });
  const none = el("div", { hidden: true }, empty("Nothing needs you.", null));
  const total = el("span", { class: "count tabular" });
  const rest = el("div", { class: "rest", hidden: true });
  let needs = null;
  let all = 0;
  let open = false;
  skeleton(list, 2);
  const show = () => {
    keyed(list, open || needs.length <= SHOWN + 1 ? needs : needs.slice(0, SHOWN), (need) => `${need.kind} ${need.subject}`, make, fill);
    list.hidden = needs.length === 0;
    none.hidden = needs.length > 0;
    more.hidden = needs.length <= SHOWN + 1;
    setText(more.firstChild, open ? "Show fewer" : `Show ${needs.length === all ? "all" : "the newest"} ${needs.length}`);
    setText(total, all ? count(all) : "");
    rest.hidden = !open || needs.length === all;
    if (!rest.hidden && !rest.firstChild) replace(rest, empty("The others, by status:", "relight task list --status blocked"));
  };
  scope.on("stats", (stats) => { [needs, all] = [stats.needs_me, stats.needs_me_total]; show(); });
  return card("Needs me", { class: "area-needs", end: total }, list, none, rest, more);
}

function make(need) {
  const [view, name] = subject(need);
  const link = view ? subjectLink(view, name) : name;
  const node = el("li", {}, el("div", { class: "need-top" }, chip(NEEDS, need.kind), el("b", { class: "agent-text" }, link), time(need.at)),
    el("div", { class: "need-do" }, el("p", { class: "agent-text" }), el("span")), el("div"));
  return node;
}

function fill(node, need) {
  const [top, middle, type] = node.children;
  setTime(top.lastChild, need.at);
  setText(middle.firstChild, need.text);
  if (type.dataset.hint === (need.hint ?? "")) return;
  type.dataset.hint = need.hint ?? "";
  replace(middle.lastChild, actButton(need));
  replace(type, need.hint && hint(need.hint));
}

/** "task/book/7" is the task "book/7"; "store" has no name. */
function subject(need) {
  const cut = need.subject.indexOf("/");
  if (cut < 0) return ["", need.subject];
  return [need.subject.slice(0, cut), need.subject.slice(cut + 1)];
}

function actButton(need) {
  const [view, name] = subject(need);
  if (!view) return "";
  const label = { agent: "Start", session: "Resume" }[view] ?? { in_doubt: "Resolve", given_up: "Retry" }[need.kind] ?? "Open";
  return button(label, () => act(need, view, name), { class: "primary", "aria-label": `${label} ${name}` });
}

// The list knows only names; the thing itself is fetched so that the question asked is about its present state.
async function act(need, view, name) {
  try {
    const real = await press(need, view, name);
    if (real && !real.disabled) return real.click();
  } catch (error) {
    return sayError(error);
  }
  go(placeOf(view, name));
}

async function press(need, view, name) {
  const thing = await get([`${view}s`, name]);
  if (view === "session") return thing.state === "suspended" ? sessionButton(thing) : null;
  if (view === "agent") return agentVerbs(thing).includes("start") ? agentButton(thing, "start") : null;
  if (need.kind === "given_up") return taskVerbs(thing).includes("retry") ? taskButton(thing, "retry") : null;
  const step = need.kind === "in_doubt" && inDoubt(thing)[0];
  return step ? resolveButton(thing, step) : null;
}
