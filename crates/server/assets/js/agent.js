// The page of one agent: its attempts over time, what each used, its deaths with post-mortems, its log, tasks and configuration.
import { agentButton, agentVerbs } from "./verbs.js";
import { get } from "./api.js";
import { full, setTime, time } from "./clock.js";
import { barsCard } from "./bars.js";
import { el, keyed, replace, skeleton } from "./dom.js";
import { logCard } from "./log.js";
import { button, card, chip, command, empty, facts, subjectLink } from "./parts.js";
import { tasksCard } from "./tasks.js";
import { duration, ending, memory, money, stepName, tokens } from "./text.js";
import { timelineCard } from "./timeline.js";
import { AGENT_LOOKS, CAUSES, agentLook } from "./words.js";

export const title = "Agent";

const DEATHS = 10;

export function mount(root, scope, name, heading) {
  const top = el("div", { class: "page-top" });
  const about = card("About", {}, el("div", { class: "fill" }));
  const concerns = (event) => event.agent === name;
  root.append(top, timelineCard(scope, name), el("div", { class: "page spaced" },
    el("div", { class: "stack" }, deathsCard(scope, name, concerns), logCard(scope, name)),
    el("div", { class: "stack" }, about, barsCard(scope, name, concerns), configCard(name))),
  el("div", { class: "spaced" }, tasksCard(scope, "Tasks", name)));
  scope.refresh(async () => {
    try {
      const agent = await get(["agents", name]);
      if (!scope.ended) show(agent, top, about.lastChild);
    } catch (error) {
      if (error.status === 404 || error.status === 422) replace(root, root.querySelector(".crumbs"), heading, empty("There is no such agent.", "relight ps"));
    }
  }, { concerns, gap_ms: 500, every_ms: 4000 });
}

function show(agent, top, about) {
  const key = [agent.state, agent.idle, agent.why, agent.pid, agent.again_at, agentVerbs(agent)].join();
  if (top.dataset.key !== key) {
    top.dataset.key = key;
    replace(top, chip(AGENT_LOOKS, agentLook(agent)), agent.phase && el("span", { text: agent.phase }), agent.why && !agent.idle && el("span", { class: "soft agent-text", text: agent.why }),
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
    ["Cost", Number(agent.cost) ? money(agent.cost) : null], ["Turns", agent.turns || null], ["Tokens in", tokens(agent.input_tokens)], ["Tokens out", tokens(agent.output_tokens)],
    ["Pool", agent.pool], ["Skills", agent.skills?.join(", ")], ["Node", agent.node && subjectLink("node", agent.node)],
    ["Supervisor", agent.supervisor && `${agent.supervisor.kind ?? "process"} ${agent.supervisor.pid}`],
  ]);
}

function deathsCard(scope, name, concerns) {
  const list = el("ul", { class: "deaths" });
  const none = el("div", { hidden: true }, empty("No attempt has ended yet."));
  const more = button("Older attempts", () => { limit += DEATHS * 2; load(); }, { class: "quiet more", hidden: true });
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
  return card("Attempts that ended", { end: command(`relight deaths ${name}`) }, list, none, more);
}

/** One attempt with its cause of death; opened, its post-mortem. */
function deathItem(death) {
  const details = el("details", {}, el("summary", {}, el("span", { class: "tabular", text: `#${death.attempt}` }), chip(CAUSES, death.cause),
    el("span", { class: "soft", text: ending(death) }), el("span", { class: "soft", text: `lived ${duration(death.lived_ms)}` }),
    death.post_mortem?.task && el("span", { class: "soft agent-text", text: death.post_mortem.task }), time(death.ended_at)));
  details.addEventListener("toggle", () => details.append(postMortem(death)), { once: true });
  return el("li", {}, details);
}

function postMortem(death) {
  const found = death.post_mortem ?? {};
  const names = (steps) => (steps ?? []).map(stepName).join(", ");
  return el("div", { class: "post-mortem" },
    facts([["Begun", full(death.begun_at)], ["Ended", full(death.ended_at)], ["Last sign of life", full(death.down_since)], ["How", death.how], ["Note", death.note], ["Node", death.node],
      ["Task", found.task && subjectLink("task", found.task)], ["Last step", stepName(found.last_step)],
      ["Memory at most", found.memory_max_kib == null ? null : memory(found.memory_max_kib)], ["CPU time", found.cpu_ms == null ? null : duration(found.cpu_ms)],
      ["Done", names(found.done_steps)], ["In doubt", names(found.in_doubt)], ["Next", stepName(found.next_step)],
      ["Left behind", found.leftovers ? `${found.leftovers} processes, stopped` : null], ["Could not be stopped", found.survivors || null]]),
    el("h3", { text: "Last output" }), el("pre", { class: "log agent-text", tabindex: 0, "aria-label": `Last output of attempt ${death.attempt}`, text: found.output?.length ? found.output.join("\n") : "(nothing)" }));
}

const LIMITS = new Set(["silence_max", "timeout"]);

/** As it is in effect, with the words of relight.toml. */
function configCard(name) {
  const place = el("div", { class: "fill-small" });
  const value = (key, part) => (LIMITS.has(key) && part === "0s" ? "no limit" : Array.isArray(part) ? part.join(key === "command" ? " " : ", ") : typeof part === "object" && part ? Object.entries(part).map((pair) => pair.join("=")).join(", ") : part);
  get(["agents", name, "config"]).then((config) => replace(place, el("dl", { class: "config" },
    ...Object.entries(config).map(([key, part]) => [key, value(key, part)]).filter(([, part]) => part != null && part !== "")
      .map(([key, part]) => el("div", {}, el("dt", { text: key }), el("dd", { class: "agent-text", text: String(part) })))))).catch(() => {});
  return card("Configuration in effect", {}, place);
}
