// What a view has to let go of when another one is shown: listeners, timers, refetching.
import { calm } from "./calm.js";
import { on } from "./live.js";
import { onStats } from "./stats.js";

export class Scope {
  #ends = [];
  ended = false;

  on(topic, listener) {
    this.#ends.push(topic === "stats" ? onStats(listener) : on(topic, listener));
  }

  every(ms, call) {
    const timer = setInterval(() => document.hidden || call(), ms);
    this.#ends.push(() => clearInterval(timer));
  }

  listen(target, kind, listener, options) {
    target.addEventListener(kind, listener, options);
    this.#ends.push(() => target.removeEventListener(kind, listener, options));
  }

  /** Calls `load` now, when an event concerns it, after actions and gaps, and every `every_ms`. */
  refresh(load, { concerns = () => true, gap_ms = 800, every_ms = 0 }) {
    const run = calm(async () => this.ended || load(), gap_ms);
    run();
    this.on("events", (events) => events.some(concerns) && run());
    this.on("refetch", run);
    this.listen(window, "relight-acted", run);
    if (every_ms) this.every(every_ms, run);
    return run;
  }

  end() {
    this.ended = true;
    for (const end of this.#ends.splice(0)) end();
  }
}
