// Makes and updates elements. All text goes in as text, cleaned by text.js; nothing here parses HTML.
import { clean } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const kept = new WeakMap();

/** An element. `text` is cleaned; `on` holds listeners; `null` and `false` attributes are left out. */
export function el(tag, props = {}, ...children) {
  return build(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

function build(node, { text, on, data, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(node, name, value);
  for (const [kind, listener] of Object.entries(on ?? {})) node.addEventListener(kind, listener);
  Object.assign(node.dataset, data);
  if (text !== undefined) setText(node, text);
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

/** Writes only what changed, so that a screen reader and the layout stay calm. */
export function setText(node, text) {
  const next = clean(text ?? "");
  if (node.textContent !== next) node.textContent = next;
}

export function setAttribute(node, name, value) {
  if (/^on|^style$/i.test(name)) throw new Error(`attribute ${name} is not allowed`);
  if (value == null || value === false) return node.removeAttribute(name);
  const next = value === true ? "" : clean(value);
  if (node.getAttribute(name) !== next) node.setAttribute(name, next);
}

export function replace(node, ...children) {
  node.replaceChildren(...children.filter((child) => child != null && child !== false));
}

/** Keeps one child a key: made once, filled on each call, moved only when its place changed. */
export function keyed(parent, items, keyOf, make, fill) {
  const before = kept.get(parent) ?? new Map();
  if (!kept.has(parent)) parent.replaceChildren();
  const now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const node = before.get(key) ?? make(item);
    before.delete(key);
    fill(node, item);
    now.set(key, node);
  }
  for (const node of before.values()) node.remove();
  place(parent, now.values());
  kept.set(parent, now);
}

function place(parent, nodes) {
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}

/** Puts grey bars where data will be. */
export function skeleton(parent, count, columns = 1) {
  kept.delete(parent);
  const row = () => (parent.tagName === "TBODY"
    ? el("tr", { class: "skeleton" }, ...Array.from({ length: columns }, () => el("td", {}, el("i"))))
    : el("li", { class: "skeleton" }, el("i")));
  parent.replaceChildren(...Array.from({ length: count }, row));
}
