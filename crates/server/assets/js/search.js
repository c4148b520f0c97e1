// Search everywhere: agents, tasks, steps, sessions, pages and commands, by the key `/`.
import { get, getAll } from "./api.js";
import { el, replace, setAttribute } from "./dom.js";
import { icon } from "./icons.js";
import { chip } from "./parts.js";
import { at, go, placeOf } from "./route.js";
import { agentButton, agentVerbs, AGENT_VERBS } from "./verbs.js";
import { AGENT_LOOKS, SESSION_STATES, TASK_STATUSES, agentLook } from "./words.js";

const EACH = 6; // of a kind
const VERB_LETTERS = 3; // of the beginning of a verb, to find it
const AGENTS_MAX = 5000;
const SESSIONS_MAX = 2000;
const WAIT_MS = 150;
const FRESH_MS = 10_000;
const dialog = document.getElementById("find");
let known = null;
let results = [];
let chosen = 0;
let ticket = 0;

/** `commands`: [label, what it does], beside those of agents. */
export function openSearch(commands) {
  if (dialog.open) return;
  const input = el("input", { type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-label": "Search agents, tasks, steps, sessions and commands", placeholder: "Agent, task, step, session or command", autocomplete: "off", spellcheck: "false", maxlength: "128" });
  const list = el("ul", { id: "found", role: "listbox", "aria-label": "Found" });
  const note = el("p", { class: "soft", role: "status" });
  let timer = 0;
  const search = () => find(input.value.trim(), commands, input, list, note);
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, WAIT_MS); });
  input.addEventListener("keydown", (event) => steer(event, input, list));
  replace(dialog, el("h2", { id: "find-title", class: "unseen", text: "Search" }), input, list, note);
  dialog.showModal();
  input.focus();
  search();
}

function steer(event, input, list) {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move) choose((chosen + move + results.length) % Math.max(1, results.length), input, list);
  else if (event.key === "Enter") results[chosen] && open(results[chosen]);
  else return;
  event.preventDefault();
}

function choose(index, input, list) {
  chosen = index;
  [...list.querySelectorAll("[role=option]")].forEach((item, place) => {
    setAttribute(item, "aria-selected", String(place === chosen));
    if (place !== chosen) return;
    setAttribute(input, "aria-activedescendant", item.id);
    item.scrollIntoView({ block: "nearest" });
  });
}

function open(result) {
  dialog.close();
  if (result.href) go(result.href);
  else result.act();
}

async function find(text, commands, input, list, note) {
  const mine = ++ticket;
  const wanted = text.toLowerCase();
  const has = (...parts) => parts.some((part) => part?.toLowerCase().includes(wanted));
  const of_commands = commands.filter(([label]) => has(label)).slice(0, wanted ? EACH : 20).map(([label, act, name]) => ({ kind: "Commands", label, act, icon: name }));
  if (!wanted) return show(of_commands, input, list, note, "");
  const [{ agents, sessions }, tasks] = await Promise.all([lists(), get(["tasks"], { find: text, newest: true, limit: EACH * 3 }).catch(() => ({ items: [] }))]);
  if (mine !== ticket || !dialog.open) return;
  const found = await Promise.all(tasks.items.map((task) => stepsOf(task, has)));
  if (mine !== ticket || !dialog.open) return;
  const near = agents.filter((agent) => has(agent.name, agent.step, agent.status_text, agent.why));
  const verbs = near.filter((agent) => has(agent.name)).slice(0, 2).flatMap((agent) => agentVerbs(agent).map((verb) => commandFor(agent, verb)));
  const asked = splitVerb(wanted, agents);
  show([
    ...near.slice(0, EACH).map((agent) => ({ kind: "Agents", label: agent.name, href: placeOf("agent", agent.name), chip: chip(AGENT_LOOKS, agentLook(agent)), beside: agent.why && has(agent.why) ? agent.why : agent.task })),
    ...tasks.items.filter((task) => has(task.id, task.title)).slice(0, EACH).map((task) => ({ kind: "Tasks", label: task.id, href: placeOf("task", task.id), chip: chip(TASK_STATUSES, task.status), beside: task.title })),
    ...tasks.items.flatMap((task, index) => found[index].map((step) => ({ kind: "Steps", label: step, href: at("tasks", task.id, "steps", step), beside: task.id }))).slice(0, EACH),
    ...sessions.filter((session) => has(session.key, session.session_id)).slice(0, EACH).map((session) => ({ kind: "Sessions", label: session.key, href: placeOf("session", session.key), chip: chip(SESSION_STATES, session.state), beside: session.session_id })),
    ...asked, ...of_commands, ...verbs,
  ], input, list, note, text);
}

/** The steps of a task that were looked for. Where nothing else of it was found, it is a step that was not declared. */
async function stepsOf(task, has) {
  const declared = task.steps_declared.filter((step) => has(step));
  if (declared.length || has(task.id, task.title)) return declared;
  const { steps } = await get(["tasks", task.id]).catch(() => ({ steps: [] }));
  return [...new Set(steps.map((step) => step.name))].filter((step) => has(step));
}

/** "restart wri" finds the command for the writer, "rest" that of each agent. */
function splitVerb(wanted, agents) {
  const [begin, name = ""] = wanted.split(/\s+/, 2);
  const verbs = Object.keys(AGENT_VERBS).filter((verb) => (name ? verb === begin : begin.length >= VERB_LETTERS && verb.startsWith(begin)));
  return verbs.flatMap((verb) => agents.filter((agent) => agent.name.toLowerCase().includes(name) && agentVerbs(agent).includes(verb)).slice(0, EACH).map((agent) => commandFor(agent, verb)));
}

const commandFor = (agent, verb) => ({ kind: "Commands", label: `${AGENT_VERBS[verb].label} ${agent.name}`, act: () => agentButton(agent, verb).click(), icon: AGENT_VERBS[verb].icon });

async function lists() {
  if (known && Date.now() - known.at < FRESH_MS) return known;
  const [agents, sessions] = await Promise.all([getAll(["agents"], {}, AGENTS_MAX), getAll(["sessions"], {}, SESSIONS_MAX)]).catch(() => [{ items: [] }, { items: [] }]);
  known = { at: Date.now(), agents: agents.items, sessions: sessions.items };
  return known;
}

function show(found, input, list, note, text) {
  results = found;
  const items = [];
  found.forEach((result, index) => {
    if (result.kind !== found[index - 1]?.kind) items.push(el("li", { class: "found-kind", role: "presentation", text: result.kind }));
    items.push(el("li", { role: "option", id: `found-${index}`, "aria-selected": "false", on: { click: () => open(result) } }, result.icon && icon(result.icon), el("span", { class: "agent-text name", text: result.label }), result.chip,
      result.beside && el("span", { class: "soft agent-text", text: result.beside })));
  });
  replace(list, ...items);
  note.textContent = text && !found.length ? "Nothing found." : "";
  choose(0, input, list);
}
