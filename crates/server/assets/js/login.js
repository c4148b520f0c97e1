// Turns the one-time code at the end of this page's path into a login, then goes to where one wanted to go.
// At any other address: says how to log in, and remembers that address.
import { loginCommand } from "./login_command.js";

const TARGET = "relight-target";
const TARGET_MS_MAX = 15 * 60_000;
const [first, code] = location.pathname.split("/").slice(1);

async function show(title, text) {
  document.getElementById("title").textContent = title;
  document.getElementById("text").textContent = text;
  document.getElementById("command").textContent = await loginCommand();
  document.getElementById("command").hidden = false;
}

/** Only a path of our own, and only for a while. */
function target() {
  try {
    const { path, at } = JSON.parse(localStorage.getItem(TARGET));
    localStorage.removeItem(TARGET);
    const url = new URL(path, location.origin);
    if (Date.now() - at < TARGET_MS_MAX && url.origin === location.origin && !/^\/(login|api)\//.test(url.pathname)) return url.pathname + url.search;
  } catch {
    // There is none, or it is none of ours.
  }
  return "/";
}

function wait() {
  if (location.pathname !== "/") localStorage.setItem(TARGET, JSON.stringify({ path: location.pathname + location.search, at: Date.now() }));
  show("Log in", "Type this in a terminal on the machine where Relight runs; it opens a login link:");
  addEventListener("storage", (event) => event.key === "relight-csrf" && location.reload());
}

async function logIn() {
  if (first !== "login") return wait();
  if (!/^[A-Za-z0-9_-]{1,128}$/.test(code ?? "")) return show("Log in", "Type this in a terminal; it opens a fresh link:");
  try {
    const answer = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (answer.ok) {
      // Kept for this very origin, port and all, where the cookie goes to every port of the host.
      localStorage.setItem("relight-csrf", (await answer.json()).csrf);
      return location.replace(target());
    }
    show("This link no longer works", "A login link works once and for one minute. Type this for a fresh one:");
  } catch {
    show("Relight cannot be reached", "Is `relight up` running? Then type this for a fresh link:");
  }
}

logIn();
