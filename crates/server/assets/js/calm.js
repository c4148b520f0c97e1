// Keeps calls apart: never two at once, never more often than agreed, and never the last one lost.

/** `call` at once when it is quiet, else once more when `gap_ms` have passed. */
export function calm(call, gap_ms) {
  let busy = false;
  let again = false;
  const run = async () => {
    if (busy) return void (again = true);
    busy = true;
    try {
      await call();
    } finally {
      setTimeout(rest, gap_ms);
    }
  };
  const rest = () => {
    busy = false;
    if (again) { again = false; run(); }
  };
  return run;
}
