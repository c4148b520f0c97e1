// The page of one step: each try with who and how long, and what it wrote.
import { get } from "./api.js";
import { full } from "./clock.js";
import { el, replace } from "./dom.js";
import { textCard } from "./output.js";
import { card, chip, command, empty, facts, subjectLink, table } from "./parts.js";
import { count, stepName } from "./text.js";
import { inDoubt, isWorkedOn, resolveButton } from "./verbs.js";
import { history, outcomeChip, tookText } from "./waterfall.js";
import { STEP_STATES } from "./words.js";

export const title = "Step";

export function mount(root, scope, id, heading, shown) {
  const [, name, occurrence] = /^(.*?)(?:#(\d+))?$/s.exec(shown);
  const top = el("div", { class: "page-top" });
  const body = el("div", { class: "stack" });
  root.append(top, body);
  scope.refresh(async () => {
    try {
      const [task, step] = await Promise.all([get(["tasks", id]), get(["tasks", id, "steps", name], { occurrence })]);
      const past = await history(task);
      if (!scope.ended) show(task, step, past.steps.get(stepName(step)) ?? [], top, body);
    } catch (error) {
      if (error.status === 404 || error.status === 422) replace(root, root.querySelector(".crumbs"), heading, empty(error.message, `relight step list --task ${id}`));
    }
  }, { concerns: (event) => event.task === id, gap_ms: 800, every_ms: 10_000 });
}

function show(task, step, tries, top, body) {
  const key = JSON.stringify([step, tries, task.status, Boolean(task.holder?.alive)]);
  if (top.dataset.key === key) return;
  top.dataset.key = key;
  const recorded = task.steps.find((one) => stepName(one) === stepName(step)) ?? step;
  const is_doubt = inDoubt(task).includes(recorded);
  replace(top, chip(STEP_STATES, is_doubt ? "in_doubt" : step.state), is_doubt && el("span", { class: "soft", text: "It was begun and not ended: it may or may not have happened." }),
    el("div", { class: "filters end" }, is_doubt && !isWorkedOn(task) && resolveButton(task, recorded)));
  const again = step.occurrence > 1 ? ` --occurrence ${step.occurrence}` : "";
  replace(body, el("div", { class: "page" }, triesCard(tries), card("About", {}, facts([["Task", subjectLink("task", task.id)], ["Repeat rule", step.rule], ["Exit code", step.exit_code], ["Tries", step.tries],
    ["Recorded", full(step.at)], ["Idempotency key", step.idempotency_key]]))),
  ...outputs(task, step),
  el("div", { class: "same-as" }, el("span", { class: "soft", text: "In a terminal:" }), ...["show", "output"].map((verb) => command(`relight step ${verb} ${step.name} --task ${task.id}${again}`))));
}

function triesCard(tries) {
  const list = table("Tries", ["Try", "Outcome", "Began", "Took", "By"], 0);
  list.body.append(...tries.map((one, index) => el("tr", {}, el("td", { class: "tabular", text: index + 1 }), el("td", {}, outcomeChip(one), one.exit_code ? el("small", { text: `exit ${one.exit_code}` }) : null),
    el("td", { class: "tabular", text: one.is_bound ? "–" : full(one.from) }), el("td", { class: "tabular", text: tookText(one) }),
    el("td", { class: "agent-text" }, one.hold?.attempt ? subjectLink("agent", one.hold.attempt.agent, { text: one.hold.who }) : one.by ?? one.hold?.who ?? "–"))));
  return card("Tries", {}, el("div", { class: "scroll" }, list.node), !tries.length && empty("Its tries are not among the newest events."));
}

function outputs(task, step) {
  const file = `${task.id}-${stepName(step)}`;
  const note = [step.truncated && `beginning and end of ${count(step.output_bytes)} bytes`, step.redacted && "secrets were removed"].filter(Boolean).join(", ");
  const none = step.output == null && step.stderr == null;
  return [
    step.output ? textCard("Output", step.output, { note, file: `${file}.txt` }) : card("Output", {}, empty(none ? "Nothing is recorded of what it wrote." : "It wrote nothing to standard output.")),
    step.stderr && textCard("Standard error", step.stderr, { note: "its end", file: `${file}-stderr.txt` }),
  ].filter(Boolean);
}
