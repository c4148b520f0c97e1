// Says things: short notices for the eye, and sparing announcements for screen readers.
import { clean } from "./text.js";

const TOAST_MS = 6000;
const TOASTS_MAX = 3;

/** `toast` and `trouble` are shown and read out; `quiet` is only read out. */
export function say(text, how = "quiet") {
  if (how === "quiet") {
    document.getElementById("said").textContent = clean(text);
    return;
  }
  const box = document.getElementById("toasts");
  const toast = document.createElement("div");
  toast.className = `toast ${how}`;
  toast.textContent = clean(text);
  box.append(toast);
  while (box.children.length > TOASTS_MAX) box.firstChild.remove();
  setTimeout(() => toast.remove(), TOAST_MS);
}

export function sayError(error) {
  say(error.hint ? `${error.message}. Try: ${error.hint}` : error.message, "trouble");
}
