// What the tests share: a store of their own, and programs that can be killed.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { open } from "relight";

/** A folder of the state that is removed after the test. */
export function home(context) {
  const folder = mkdtempSync(join(tmpdir(), "relight-ts-"));
  context.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

export function opened(context, options = {}) {
  return open({ home: home(context), ...options });
}

/** Starts a program of this folder; its answer has what it printed and how it ended. */
export function start(program, words, environment = {}) {
  const file = fileURLToPath(new URL(program, import.meta.url));
  const child = spawn(process.execPath, ["--expose-gc", file, ...words], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...environment },
  });
  const ended = once(child, "exit");
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text) => (printed += text));
  return {
    child,
    /** Waits until a line was printed: this one, or one like it. */
    async line(wanted) {
      const fits = (line) => (wanted instanceof RegExp ? wanted.test(line) : line === wanted);
      const isThere = () => printed.split("\n").some(fits);
      while (!isThere()) {
        const more = await Promise.race([once(child.stdout, "data"), ended.then(() => undefined)]);
        if (more === undefined) break;
      }
      if (!isThere()) throw new Error(`it ended without ${wanted}: ${printed}`);
    },
    async end() {
      const [code, signal] = await ended;
      return { code, signal, printed };
    },
  };
}
