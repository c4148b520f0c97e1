// Turns the one-time code at the end of this page's path into a login, then goes to the dashboard.
const code = decodeURIComponent(location.pathname.split("/")[2] ?? "");

function show(title, text) {
  document.getElementById("title").textContent = title;
  document.getElementById("text").textContent = text;
  document.getElementById("command").hidden = false;
}

async function logIn() {
  if (!/^[A-Za-z0-9_-]{1,128}$/.test(code)) return show("Log in", "Type this in a terminal; it opens a fresh link:");
  try {
    const answer = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (answer.ok) {
      // Kept for this very origin, port and all, where the cookie goes to every port of the host.
      localStorage.setItem("relight-csrf", (await answer.json()).csrf);
      return location.replace("/");
    }
    show("This link no longer works", "A login link works once and for one minute. Type this for a fresh one:");
  } catch {
    show("Relight cannot be reached", "Is `relight up` running? Then type this for a fresh link:");
  }
}

logIn();
