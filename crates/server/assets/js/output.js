// Longer texts of agents: shown as they are, to be copied and downloaded.
import { el } from "./dom.js";
import { say } from "./notice.js";
import { button, card } from "./parts.js";
import { clean } from "./text.js";

const LENGTH_MAX = 2_000_000; // more than the daemon keeps

/** `note` stands beside the title; `file` is the name of the download. */
export function textCard(title, text, { note = "", file = "output.txt", whole = text } = {}) {
  const field = el("pre", { class: "log agent-text", tabindex: 0, "aria-label": title });
  field.textContent = clean(text, LENGTH_MAX);
  return card(title, { end: el("div", { class: "filters" }, note && el("span", { class: "soft", text: note }), ...textButtons(() => whole, file)) }, field);
}

/** Copy and download; `text` is asked for when one of them is pressed. */
export function textButtons(text, file) {
  return [button("Copy", () => copy(text()), { icon: "copy" }), button("Download", () => download(text(), file), { icon: "down" })];
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.", "toast");
  } catch {
    say("The browser does not let us copy; download it instead.", "trouble");
  }
}

function download(text, file) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  el("a", { href: url, download: file.replace(/[^A-Za-z0-9._-]+/g, "-") }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
