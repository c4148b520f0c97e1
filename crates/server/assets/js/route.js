// Which view is shown. The address holds a view's name and nothing else; whose page it is (an agent,
// a task) lives in the history's state, which no link from outside can set.
import { VIEWS } from "./words.js";

const PAGES = ["agent", "task"];
let listener = () => {};

export function current() {
  const view = location.hash.slice(1);
  if (VIEWS.includes(view)) return { view, name: null };
  const name = history.state?.name;
  if (PAGES.includes(view) && typeof name === "string") return { view, name };
  return { view: "overview", name: null };
}

export function go(view, name = null) {
  history.pushState(name ? { name } : null, "", `#${view}`);
  listener(current());
}

export function watch(call) {
  listener = call;
  addEventListener("popstate", () => listener(current()));
  listener(current());
}
