// Puts the dashboard together: frame, views, connection, colours, keys.
import { empty, button } from "./parts.js";
import { setTime, clockTime } from "./clock.js";
import { el, replace, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";
import { connect, link, on } from "./live.js";
import { say } from "./notice.js";
import { at, go, keepTarget, placeOf, setNeeds, setTitle, watch } from "./route.js";
import { Scope } from "./scope.js";
import { keepFresh, onStats } from "./stats.js";
import { VIEWS } from "./words.js";
import * as overview from "./overview.js";

const LABELS = { overview: "Overview", timeline: "Timeline", tasks: "Tasks", sessions: "Sessions", events: "Events" };
const HOME = [["Overview", "/"]];
/** The way to pages that are not in the bar: the list that each is in, and the lists that the overview holds. */
const PATHS = { __proto__: null, agents: () => HOME, nodes: () => HOME, nowhere: () => HOME, agent: () => [["Agents", "/agents"]], node: () => [["Nodes", "/nodes"]], task: () => [["Tasks", "/tasks"]],
  step: (id) => [["Tasks", "/tasks"], [id, placeOf("task", id)]], session: () => [["Sessions", "/sessions"]], event: () => [["Events", "/events"]] };
const IN_BAR = { __proto__: null, agents: "overview", nodes: "overview", agent: "overview", node: "overview", task: "tasks", step: "tasks", session: "sessions", event: "events" };
const main = document.getElementById("main");
let scope = null;
let shown = 0;

// Views other than the first are fetched when they are first looked at.
async function load(view) {
  if (view === "overview") return overview;
  pages_style ??= new Promise((done) => document.head.append(el("link", { rel: "stylesheet", href: "/assets/pages.css", on: { load: done, error: done } })));
  await pages_style;
  return import(`./${view}.js`);
}

let pages_style = null;

async function show({ view, name, step }) {
  const turn = ++shown;
  const module = await load(view);
  if (turn !== shown || link.state === "out") return;
  scope?.end();
  scope = new Scope();
  const path = PATHS[view]?.(name);
  const heading = el("h1", { class: path ? "" : "unseen" }, el("span", { class: "agent-text", text: step ?? name ?? module.title }));
  replace(main, path && el("nav", { class: "crumbs", "aria-label": "Path" }, ...path.map(([label, href]) => el("a", { href, class: "agent-text", text: `‹ ${label}` }))), heading);
  setTitle(step, name, name ? `${module.title}` : view !== "overview" && module.title);
  document.body.dataset.view = view;
  module.mount(main, scope, name, heading, step);
  for (const item of nav.children) setAttribute(item, "aria-current", item.dataset.view === (IN_BAR[view] ?? view) ? "page" : null);
  scrollTo(0, 0);
  heading.tabIndex = -1;
  if (turn > 1) heading.focus({ preventScroll: true });
}

const nav = document.getElementById("nav");
for (const view of VIEWS) {
  nav.append(viewLink(view, icon(view), el("span", { text: LABELS[view] }), view === "overview" && el("span", { class: "badge tabular" })));
}

function addressOf(view) {
  return view === "overview" ? "/" : at(view);
}

function viewLink(view, ...children) {
  return el("a", { href: addressOf(view), data: { view } }, ...children);
}

// -- connection ---------------------------------------------------------------------------------------

const LINK_TEXT = { connecting: "Connecting", live: "Live", lost: "Disconnected", out: "Logged out" };

function showLink() {
  const chip = document.getElementById("link");
  if (chip.dataset.state === link.state) return;
  chip.dataset.state = link.state;
  replace(chip, el("i"), el("span", { text: LINK_TEXT[link.state] }));
  document.body.classList.toggle("stale", link.state === "lost");
  showBanner();
  document.body.classList.toggle("out", link.state === "out");
  if (link.state === "out") showLoggedOut();
}

let latest = null;

function showBanner() {
  const banner = document.getElementById("banner");
  const { text, since, type } = bannerText();
  banner.hidden = !text;
  banner.className = `banner ${link.state === "lost" ? "bad" : "warn"}`;
  if (text) replace(banner, since && el("b", {}, `Disconnected since ${clockTime(since)}, for `, setTime(el("time"), since, "for"), "."), el("span", { text }), type && el("code", { text: type }));
}

function bannerText() {
  if (link.state === "lost") return { text: "What you see may be old. It is tried again by itself.", since: link.since };
  if (link.state !== "live" || !latest) return {};
  if (latest.held_back) return { text: "The machine went down again and again soon after work was resumed, so nothing was resumed this time. Start agents one by one:", type: "relight start NAME" };
  if (latest.draining) return { text: "Relight is draining: what runs continues, nothing new is started." };
  return {};
}

async function showLoggedOut() {
  scope?.end();
  const { loginCommand } = await import("./login_command.js");
  replace(main, el("section", { class: "card login" }, el("img", { src: "/assets/icon.svg", alt: "", width: 40, height: 40 }),
    el("h1", { text: "Log in" }), empty("Type this in a terminal on the machine where Relight runs; it opens a login link that works once:", await loginCommand()),
    button("Try again", () => location.reload())));
  setTitle("Logged out");
  keepTarget();
}

let was_live = false;
on("link", () => {
  showLink();
  if (link.state === "lost" && was_live) say("Disconnected from Relight.");
  if (link.state === "live" && was_live) say("Connected again.");
  was_live ||= link.state === "live";
});

let needed = null;
const place = document.getElementById("place");
onStats((stats) => {
  latest = stats;
  const needs = stats.needs_me_total;
  showBanner();
  const { name, folder } = stats.project ?? { name: stats.home.split("/").slice(-2).join("/"), folder: stats.home };
  setNeeds(needs, name);
  setText(place, name);
  setAttribute(place, "title", folder);
  setText(nav.firstChild.lastChild, needs || "");
  setAttribute(nav.firstChild.lastChild, "aria-label", needs ? `${needs} need you` : null);
  if (needed !== null && needs > needed) say(`${needs} things need you.`);
  needed = needs;
});

// -- colours and keys ---------------------------------------------------------------------------------

const THEMES = { system: "half", light: "sun", dark: "moon" };
const themeButton = document.getElementById("theme");

function showTheme() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  replace(themeButton, icon(THEMES[chosen]));
  setAttribute(themeButton, "aria-label", `Colours: ${chosen}. Change`);
  themeButton.title = `Colours: ${chosen} (t)`;
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % names.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  keep("relight.theme", next);
  showTheme();
  dispatchEvent(new Event("relight-theme"));
}

function keep(name, value) {
  try { localStorage.setItem(name, value); } catch { /* Storage is switched off: it holds for this page. */ }
}

function kept(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

const KEYS = [["1 – 5", "Overview, timeline, tasks, sessions, events"], ["/", "Search agents, tasks, steps, sessions, commands"], ["f", "Filter the list of this page"], ["r", "Fetch everything again"], ["p", "Pause and continue (events)"],
  ["+ − ← →", "Zoom and move (timeline)"], ["Alt ← →", "Back and forward"], ["t", "Colours: system, light, dark"], ["?", "This list"], ["Esc", "Close"]];
let keys_on = kept("relight.keys") !== "off";

async function help() {
  const { showKeys } = await import("./dialog.js");
  showKeys(KEYS, keys_on, (enabled) => { keys_on = enabled; keep("relight.keys", enabled ? "on" : "off"); });
}

async function search() {
  const { openSearch } = await import("./search.js");
  const pages = [["Agents", "/agents"], ...VIEWS.map((view) => [LABELS[view], addressOf(view)]), ["Nodes", "/nodes"]].map(([label, href]) => [`Go to ${label}`, () => go(href), "tasks"]);
  openSearch([...pages, ["Change colours", nextTheme, "half"], ["Keyboard shortcuts", help, "hand"], ["Fetch everything again", SHORTCUTS.r, "again"]]);
}

const SHORTCUTS = {
  "?": help,
  "/": search,
  t: nextTheme,
  r: () => dispatchEvent(new Event("relight-acted")),
  f: () => main.querySelector("[data-filter]")?.focus(),
  p: () => main.querySelector("[data-pause]")?.click(),
};

addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, dialog");
  if (!keys_on || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = VIEWS[event.key - 1];
  const act = view ? () => go(addressOf(view)) : SHORTCUTS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

document.getElementById("help").addEventListener("click", help);
document.getElementById("search").addEventListener("click", search);
replace(document.getElementById("search"), icon("search"));
themeButton.addEventListener("click", nextTheme);
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

document.addEventListener("visibilitychange", () => document.hidden || dispatchEvent(new Event("relight-acted")));

showTheme();
showLink();
watch(show);
keepFresh();
connect();
