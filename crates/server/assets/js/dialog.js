// Asks before something is done, and lists the keys.
import { el, replace } from "./dom.js";
import { command } from "./parts.js";

/** True when the person agreed. `choices`: [[value, label, tone]]; answers the value chosen, or null. */
export function ask({ title, text, type, choices }) {
  const dialog = document.getElementById("ask");
  const close = (value) => () => dialog.close(value);
  const buttons = choices.map(([value, label, tone]) => el("button", { type: "button", class: tone, text: label, on: { click: close(value) } }));
  const cancel = el("button", { type: "button", text: "Keep as it is", autofocus: true, on: { click: close("") } });
  replace(dialog,
    el("h2", { id: "ask-title", text: title }),
    ...[text].flat().filter(Boolean).map((line) => el("p", { class: "agent-text", text: line })),
    type && el("div", { class: "same-as" }, el("span", { class: "soft", text: "In a terminal:" }), command(type)),
    el("div", { class: "buttons" }, cancel, ...buttons));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue || null), { once: true }));
}

export function showKeys(keys, enabled, toggle) {
  const dialog = document.getElementById("keys");
  const box = el("input", { type: "checkbox", checked: enabled, on: { change: () => toggle(box.checked) } });
  replace(dialog,
    el("h2", { id: "keys-title", text: "Keyboard shortcuts" }),
    el("dl", { class: "keys" }, ...keys.map(([key, does]) => el("div", {}, el("dt", {}, el("kbd", { text: key })), el("dd", { text: does })))),
    el("label", { class: "check" }, box, "Shortcuts are on"),
    el("div", { class: "buttons" }, el("button", { type: "button", text: "Close", autofocus: true, on: { click: () => dialog.close() } })));
  dialog.showModal();
}
