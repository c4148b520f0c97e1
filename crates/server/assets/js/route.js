// Which page is shown, by its address: /tasks/ID/steps/NAME. Filters are in the query, so that a link to
// what one sees can be sent to somebody else.
import { clean } from "./text.js";

const LISTS = ["agents", "timeline", "tasks", "sessions", "events", "nodes"];
const PAGES = { __proto__: null, agents: "agent", tasks: "task", sessions: "session", events: "event", nodes: "node" };
let listener = () => {};

/** `view`, whose page it is (`name`), and the step of a task. */
export function current() {
  const parts = location.pathname.split("/").slice(1).map(decoded);
  const [list, name, word, step] = parts;
  if (list === "" && parts.length === 1) return { view: "overview", name: null };
  if (!LISTS.includes(list) || parts.includes(null)) return { view: "nowhere", name: null };
  if (!name) return { view: list, name: null };
  if (list === "tasks" && word === "steps" && step && parts.length === 4) return { view: "step", name, step };
  if (parts.length === 2 && PAGES[list]) return { view: PAGES[list], name };
  return { view: "nowhere", name: null };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return null; }
}

/** The address of a page. Each part is encoded by itself, because ids may hold a `/`. */
export const at = (...parts) => `/${parts.map(encodeURIComponent).join("/")}`;

/** The address of an agent, a task or another thing with a page of its own. */
export const placeOf = (view, name) => at(Object.keys(PAGES).find((list) => PAGES[list] === view), name);

export function go(path) {
  if (path === location.pathname + location.search) return;
  history.pushState(null, "", path);
  listener(current());
}

/** What the address filters by. */
export const filters = () => Object.fromEntries(new URLSearchParams(location.search));

/** Keeps a view's filters in the address; empty ones are left out. */
export function setFilters(values) {
  const all = Object.entries({ ...filters(), ...values }).filter(([, value]) => value != null && value !== "" && value !== false);
  const search = new URLSearchParams(all.map(([name, value]) => [name, String(value)])).toString();
  history.replaceState(null, "", location.pathname + (search ? `?${search}` : ""));
}

/** Where a login leads back to. */
export const keepTarget = () => {
  try { localStorage.setItem("relight-target", JSON.stringify({ path: location.pathname + location.search, at: Date.now() })); } catch { /* It leads to the overview. */ }
};

/** A plain click on a link of ours changes the page without a reload. */
function follow(event) {
  const link = event.target.closest?.("a[href^='/']");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
}

export function watch(call) {
  listener = call;
  const old = location.hash.slice(1); // addresses of earlier versions
  if (location.pathname === "/" && LISTS.includes(old)) history.replaceState(null, "", at(old));
  addEventListener("popstate", () => listener(current()));
  document.addEventListener("click", follow);
  listener(current());
}

/** The tab says what is shown, and of which project: "pay-8 · Task · shop · Relight". */
let needs = 0;
let place = "";
let words = [];
export function setTitle(...parts) {
  words = parts.filter(Boolean);
  document.title = `${needs ? `(${needs}) ` : ""}${[...[...words, place].filter(Boolean).map((word) => clean(word)), "Relight"].join(" · ")}`;
}
export function setNeeds(number, of_place) {
  needs = number;
  place = of_place;
  setTitle(...words);
}
