// Small pieces that every view is made of: chips, buttons, commands to type, tables, empty states.
import { el, keyed, replace, setAttribute, setText, skeleton } from "./dom.js";
import { icon } from "./icons.js";
import { say } from "./notice.js";
import { placeOf } from "./route.js";
import { count, words } from "./text.js";

/** A state as a word with an icon; the colour only repeats what the word says. */
export function chip(table, word, label) {
  return setChip(el("span"), table, word, label);
}

export function setChip(node, table, word, label = words(word)) {
  if (node.dataset.word === `${word} ${label}`) return node;
  const [name, tone] = table[word] ?? ["circle", "calm"];
  node.dataset.word = `${word} ${label}`;
  node.className = `chip ${tone}`;
  replace(node, icon(name), el("span", { text: label }));
  return node;
}

export function button(label, click, props = {}) {
  const { icon: name, ...rest } = props;
  return el("button", { type: "button", on: { click }, ...rest }, name && icon(name), el("span", { text: label }));
}

/** A link to the page of an agent, a task, a session or a node. */
export function subjectLink(view, name, props = {}) {
  return el("a", { href: placeOf(view, name), text: name, ...props });
}

/** A command to type, with a button that copies it. */
export function command(text) {
  const code = el("code", {}, ...text.split(" ").flatMap((word, index) => [index ? " " : null, el("span", { class: "word", text: word })]));
  const copy = el("button", { type: "button", class: "quiet small", "aria-label": `Copy: ${text}`, title: "Copy", on: { click: () => copyText(code) } }, icon("copy"));
  return el("span", { class: "command" }, code, copy);
}

/** "relight deaths a, then relight start a": each command by itself, with the word between. */
export function hint(text) {
  const parts = text.split(/, (then|or) /);
  return el("div", { class: "hint-line" }, ...parts.map((part, index) => (index % 2 ? el("span", { class: "soft", text: part }) : command(part))));
}

async function copyText(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    say("Copied.", "toast");
  } catch {
    getSelection().selectAllChildren(code);
    say("Selected; copy it with the keyboard.", "toast");
  }
}

/** `text`, then what to type. */
export function empty(text, type, after) {
  return el("div", { class: "empty" }, el("p", { text }), type && command(type), after && el("p", { class: "soft", text: after }));
}

export function card(title, props, ...children) {
  const { end, ...rest } = props;
  return el("section", { "aria-label": title, ...rest, class: `card ${rest.class ?? ""}` },
    el("header", {}, el("h2", { text: title }), end), ...children);
}

/** A table with headings; `body` is filled by the caller and holds grey bars until then. */
export function table(caption, headings, rows = 6) {
  const body = el("tbody");
  skeleton(body, rows, headings.length);
  const head = headings.map((heading) => (heading instanceof Node ? heading : el("th", { scope: "col", text: heading })));
  const node = el("table", { class: "rows" }, el("caption", { class: "unseen", text: caption }), el("thead", {}, el("tr", {}, ...head)), body);
  return { node, body };
}

/** Headings that sort. `columns`: [key, label]; a column without a key is not sorted by. `chosen`: "name", or "-name" downward. A click on one of `down_first` shows its greatest first. */
export function sortHeads(columns, chosen, change, down_first = []) {
  const heads = columns.map(([key, label, hidden]) => (key
    ? el("th", { scope: "col", class: `col-${key}`, data: { key } }, el("button", { type: "button", class: "sort", text: label, on: { click: () => turn(key) } }))
    : el("th", { scope: "col" }, el("span", { class: hidden ? "unseen" : "", text: label }))));
  const show = () => heads.forEach((head) => setAttribute(head, "aria-sort", head.dataset.key === chosen ? "ascending" : `-${head.dataset.key}` === chosen ? "descending" : null));
  const turn = (key) => {
    const [first, second] = down_first.includes(key) ? [`-${key}`, key] : [key, `-${key}`];
    chosen = chosen === first ? second : first;
    show();
    change(chosen);
  };
  show();
  return heads;
}

/** A comparison for `sort`: by `chosen` ("-name" is downward), then by `last`. Missing values come last either way. */
export function comparison(by, chosen, last) {
  const is_down = chosen.startsWith("-");
  const value = by[is_down ? chosen.slice(1) : chosen] ?? last;
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x == null || y == null) return (x == null) - (y == null) || compare(last(a), last(b));
    return (is_down ? compare(y, x) : compare(x, y)) || compare(last(a), last(b));
  };
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** Name and value pairs; values are nodes or text, empty ones are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value != null && value !== "");
  return el("dl", { class: "facts" }, ...shown.map(([name, value]) =>
    el("div", {}, el("dt", { text: name }), value instanceof Node ? el("dd", {}, value) : el("dd", { class: "agent-text", text: value }))));
}

export function select(label, options, change, chosen = "") {
  const box = el("select", { "aria-label": label, on: { change: () => change(box.value) } },
    ...options.map(([value, text]) => el("option", { value, text, selected: value === chosen })));
  return box;
}

export function searchBox(label, input, value = "") {
  let timer = 0;
  const box = el("input", { type: "search", placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false", maxlength: "128", data: { filter: "" }, value });
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => input(box.value.trim()), 200); });
  return box;
}

/** One button a state, with how many there are where that is known; `choose` gets the state, or "" for all. */
export function tabs(label, states, choose) {
  const node = el("div", { class: "tabs", role: "group", "aria-label": label });
  const make = ([state]) => button("", () => choose(state));
  return { node, show(counts, chosen, all = Object.values(counts).reduce((sum, number) => sum + number, 0)) {
    keyed(node, [["", all], ...states.map((state) => [state, state in counts ? counts[state] : 0])], ([state]) => state, make, (tab, [state, number]) => {
      setAttribute(tab, "aria-pressed", String(state === chosen));
      setText(tab.firstElementChild, `${state ? words(state) : "all"} ${number === null ? "" : count(number)}`.trimEnd());
      tab.classList.toggle("none", number === 0);
    });
  } };
}

/** Two buttons with a text between; `move` gets -1 or 1. */
export function pager(move, back_label = "Previous", on_label = "Next") {
  const back = button(back_label, () => move(-1));
  const on = button(on_label, () => move(1));
  const text = el("span", { class: "soft tabular" });
  const node = el("div", { class: "pager", hidden: true }, back, text, on);
  return { node, show(label, has_back, has_on) {
    node.hidden = !has_back && !has_on;
    setText(text, label);
    back.disabled = !has_back;
    on.disabled = !has_on;
  } };
}
