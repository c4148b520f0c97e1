// The page of one agent: its state, its lives, its deaths with their post-mortems, and its log.
import { agentButton, agentVerbs } from "./verbs.js";
import { get, getAll } from "./api.js";
import { full, now, setTime, time } from "./clock.js";
import { el, keyed, replace, setText, skeleton } from "./dom.js";
import { Lanes, listed, toLanes } from "./lanes.js";
import { button, card, chip, command, empty, facts, subjectLink } from "./parts.js";
import { clean, duration, ending, memory, stepName } from "./text.js";
import { AGENT_STATES, CAUSES } from "./words.js";

export const title = "Agent";

const DAY_MS = 86_400_000;
const DEATHS = 20;
const LOG_LINES = 200;

export function mount(root, scope, name, heading) {
  heading.textContent = "";
  heading.append(el("span", { class: "agent-text", text: name }));
  const top = el("div", { class: "page-top" });
  const about = card("About", {}, el("div", { class: "fill" }));
  const concerns = (event) => event.agent === name;
  root.append(top, el("div", { class: "page" },
    el("div", { class: "stack" }, livesCard(scope, name, concerns), deathsCard(scope, name, concerns)),
    el("div", { class: "stack" }, about, logCard(scope, name))));
  scope.refresh(async () => {
    try {
      const agent = await get(["agents", name]);
      if (!scope.ended) show(agent, top, about.lastChild);
    } catch (error) {
      if (error.status === 404) replace(root, heading, empty("There is no such agent any more.", "relight ps"));
    }
  }, { concerns, gap_ms: 500, every_ms: 4000 });
}

function show(agent, top, about) {
  const key = [agent.state, agent.why, agent.pid, agent.again_at, agentVerbs(agent)].join();
  if (top.dataset.key !== key) {
    top.dataset.key = key;
    replace(top, chip(AGENT_STATES, agent.state), agent.phase && el("span", { text: agent.phase }), agent.why && el("span", { class: "soft agent-text", text: agent.why }),
      agent.again_at && el("span", {}, "again ", time(agent.again_at, "in")),
      el("div", { class: "filters end" }, ...agentVerbs(agent).map((verb) => agentButton(agent, verb))));
  }
  const { last_sign_at, updated_at, ...rest } = agent;
  const about_key = JSON.stringify(rest);
  if (about.dataset.key !== about_key) replace(about, aboutFacts(agent));
  about.dataset.key = about_key;
  setTime(about.querySelector("time"), last_sign_at); // the first fact; it changes all the time
}

function aboutFacts(agent) {
  return facts([
    ["Last sign of life", time(agent.last_sign_at)], ["In this state", time(agent.since, "for")],
    ["Attempt", agent.attempt || "–"], ["Alive for", agent.attempt_begun_at && time(agent.attempt_begun_at, "for")],
    ["Process", agent.pid], ["Waiting", agent.waiting_until && time(agent.waiting_until, "left")],
    ["Task", agent.task && subjectLink("task", agent.task)], ["Step", agent.step], ["Session", agent.session], ["Says", agent.status_text],
    ["Recoveries in a row", `${agent.recoveries_in_a_row} of ${agent.max_attempts}`], ["Restarts in all", agent.restarts_total],
    ["Preset", agent.preset], ["Takes tasks by", agent.takes], ["Skills", agent.skills?.join(", ")], ["Pool", agent.pool], ["Node", agent.node],
    ["Folder", agent.folder], ["Command", agent.command?.length ? el("code", { class: "agent-text", text: agent.command.join(" ") }) : null],
  ]);
}

function livesCard(scope, name, concerns) {
  const canvas = el("canvas", { role: "img", "aria-label": "Attempts and deaths of the last 24 hours; the list of deaths below says the same." });
  const node = card("Last 24 hours", {}, el("div", { class: "lane-field alone" }, canvas));
  let lanes = [];
  let drawing = null;
  const draw = () => { drawing ??= new Lanes(canvas); drawing.draw(lanes, now() - DAY_MS, now() + DAY_MS * 0.02); };
  scope.refresh(async () => {
    const page = await getAll(["attempts"], { agent: name, since: new Date(now() - DAY_MS).toISOString() }, 1000).catch(() => null);
    if (!page || scope.ended) return;
    lanes = listed(toLanes(page.items));
    draw();
  }, { concerns: (event) => concerns(event) && event.kind.startsWith("attempt."), gap_ms: 1000 });
  scope.every(10_000, draw);
  scope.listen(window, "resize", draw);
  scope.listen(window, "relight-theme", () => { drawing?.readColours(); draw(); });
  return node;
}

function deathsCard(scope, name, concerns) {
  const list = el("ul", { class: "deaths" });
  const none = el("div", { hidden: true }, empty("It has not died yet."));
  const more = button("Older deaths", () => { limit += DEATHS; load(); }, { class: "quiet more", hidden: true });
  let limit = DEATHS;
  skeleton(list, 4);
  const load = scope.refresh(async () => {
    const page = await get(["agents", name, "deaths"], { limit }).catch(() => null);
    if (!page) return;
    keyed(list, page.items, (death) => death.attempt, deathItem, () => {});
    list.hidden = !page.items.length;
    none.hidden = page.items.length > 0;
    more.hidden = !page.next || limit >= 1000;
  }, { concerns: (event) => concerns(event) && event.kind === "attempt.died", gap_ms: 800 });
  return card("Deaths", { end: command(`relight deaths ${name}`) }, list, none, more);
}

/** One death; opened, its post-mortem. */
function deathItem(death) {
  const details = el("details", {}, el("summary", {}, el("span", { class: "tabular", text: `#${death.attempt}` }), chip(CAUSES, death.cause),
    el("span", { class: "soft", text: ending(death) }), el("span", { class: "soft", text: `lived ${duration(death.lived_ms)}` }), time(death.ended_at)));
  details.addEventListener("toggle", () => details.append(postMortem(death)), { once: true });
  return el("li", {}, details);
}

function postMortem(death) {
  const found = death.post_mortem ?? {};
  const names = (steps) => (steps ?? []).map(stepName).join(", ");
  return el("div", { class: "post-mortem" },
    facts([["Begun", full(death.begun_at)], ["Ended", full(death.ended_at)], ["Note", death.note], ["Last step", stepName(found.last_step)], ["Memory at most", memory(found.memory_max_kib)],
      ["Done", names(found.done_steps)], ["In doubt", names(found.in_doubt)], ["Next", stepName(found.next_step)]]),
    el("h3", { text: "Last output" }), logText(found.output));
}

function logText(lines) {
  return el("pre", { class: "log agent-text", tabindex: 0, text: lines?.length ? lines.join("\n") : "(nothing)" });
}

function logCard(scope, name) {
  const field = logText(["…"]);
  const follow = el("input", { type: "checkbox", checked: true });
  const note = el("span", { class: "soft" });
  field.classList.add("tall");
  field.setAttribute("aria-label", `Log of ${name}`);
  const load = async () => {
    const log = await get(["agents", name, "logs"], { lines: LOG_LINES }).catch(() => null);
    if (!log || scope.ended) return;
    const text = clean(log.lines.length ? log.lines.join("\n") : "(nothing yet)");
    setText(note, log.note ? clean(log.note) : log.truncated ? `last ${log.lines.length} lines` : "");
    if (field.textContent === text) return;
    field.textContent = text;
    if (follow.checked) field.scrollTop = field.scrollHeight;
  };
  load();
  scope.every(3000, () => follow.checked && load());
  return card("Log", { end: el("div", { class: "filters" }, note, el("label", { class: "check" }, follow, "follow")) }, field);
}
