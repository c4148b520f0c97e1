// Applies the chosen colours before the first paint; a plain script, because modules run later.
try {
  const chosen = localStorage.getItem("relight.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage may be switched off; the system's choice holds then.
}
