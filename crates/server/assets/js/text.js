// Text for people: what came from an agent made harmless, and durations, counts and names.

/** C0 and C1 controls, bidi controls, and characters that cannot be seen. */
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const LENGTH_MAX = 20_000;

/** The same text with each control shown as a mark: ⟨ESC⟩, ⟨202E⟩. */
export function clean(value, length_max = LENGTH_MAX) {
  const text = String(value);
  const cut = text.length > length_max ? `${text.slice(0, length_max)} …` : text;
  return cut.replace(UNSEEN, mark);
}

function mark(character) {
  const code = character.codePointAt(0);
  return code === 0x1b ? "⟨ESC⟩" : `⟨${code.toString(16).toUpperCase().padStart(2, "0")}⟩`;
}

/** Two units at most: `0.8 s`, `42 s`, `3 min`, `2 h 5 min`, `4 d 1 h`. */
export function duration(ms) {
  if (ms == null || !Number.isFinite(ms)) return "–";
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return pair(seconds, 3600, "h", 60, "min");
  return pair(seconds, 86400, "d", 3600, "h");
}

function pair(seconds, large, largeName, small, smallName) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

/** How an attempt ended, beside its cause: `exit 1`, `SIGKILL`. */
export function ending(death) {
  if (death.signal != null) return SIGNALS[death.signal] ?? `signal ${death.signal}`;
  return death.code != null ? `exit ${death.code}` : "";
}

const SIGNALS = { 1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM" };

/** A step's name, with its occurrence when it is not the first: `fetch`, `fetch#2`. */
export function stepName(step) {
  if (step == null) return "";
  if (typeof step === "string") return step;
  return step.occurrence > 1 ? `${step.name}#${step.occurrence}` : step.name;
}

export function memory(kib) {
  return kib == null ? "–" : kib >= 1 << 20 ? `${(kib / (1 << 20)).toFixed(1)} GiB` : `${Math.round(kib / 1024)} MiB`;
}

export const count = (number) => (number ?? 0).toLocaleString("en");
export const words = (name) => String(name).replaceAll("_", " ");

const SAY = {
  __proto__: null,
  number: (n) => `attempt ${n}`, lived_ms: (ms) => `lived ${duration(ms)}`, exit_code: (code) => `exit ${code}`, ttl_ms: (ms) => `for ${duration(ms)}`,
  pid: (pid) => `process ${pid}`, session: (key) => `session ${key}`, generation: (n) => `generation ${n}`, holder: (one) => (one?.kind ? holder(one) : `holder=${JSON.stringify(one)}`),
};

/** Who has a lease, as the daemon's own texts say it. */
const holder = ({ kind, by, pid, attempt }) => (kind === "process" ? `process ${pid}` : kind === "attempt" ? `attempt ${attempt}` : `${by}`);

/** An event's detail on one line: `attempt 4  lived 3 min  process 77`. */
export function flat(value) {
  if (value == null) return "";
  if (typeof value !== "object") return String(value);
  return Object.entries(value)
    .filter(([, part]) => part != null)
    .map(([name, part]) => SAY[name]?.(part) ?? `${name}=${typeof part === "object" ? JSON.stringify(part) : part}`)
    .join("  ");
}

/** An amount as people write it: `0.25`, `1,204.50`; small ones to a hundredth of a cent. */
export function money(amount) {
  const value = Number(amount);
  if (!Number.isFinite(value)) return String(amount);
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: value < 1 ? 4 : 2 });
}

/** Nothing where none are known. */
export const tokens = (number) => (number ? count(number) : null);
