import { caught, closed, refused } from "./errors.js";
import { parse, write } from "./json.js";
import { native } from "./native.js";
import type { NativeClient } from "./native.js";

interface WaitOptions {
  signal?: AbortSignal | undefined;
  /** Does not keep the event loop alive. */
  background?: boolean;
  /** It waits for what may never come: given up when the store is closed. */
  isOpenEnded?: boolean;
}

interface Waiting {
  resolve(value: string | null): void;
  reject(error: unknown): void;
  options: WaitOptions;
}

/** A recovery strategy: gets the JSON of the failure, answers the decision. */
export type Decide = (failure: Record<string, unknown>) => unknown;

/** How long Node sleeps at most between two looks at nothing. */
const IDLE_MS = 2 ** 30;

/**
 * The calls of one client that are under way.
 *
 * The native module settles them by their number through a callback that does not keep the event loop alive.
 * A timer does, but only while somebody waits.
 */
export class Calls {
  readonly native: NativeClient;
  /** Tasks and turns that have not ended: one that nobody refers to any more is not given up for that. */
  readonly held = new Set<object>();
  private readonly waiting = new Map<number, Waiting>();
  private readonly alive = setInterval(() => {}, IDLE_MS).unref();
  private last = 0;
  private foreground = 0;
  private isClosed = false;

  constructor(private readonly strategies: ReadonlyMap<string, Decide>) {
    this.native = new (native().NativeClient)(
      (number, error, value) => this.settle(number, error, value),
      (question, strategy, failure) => void this.decide(question, strategy, failure),
    );
  }

  next(): number {
    this.last = (this.last + 1) >>> 0 || 1;
    return this.last;
  }

  /** Refuses when the store was closed. What a task or a turn does is not asked of the store. */
  checkOpen(): void {
    if (this.isClosed) throw closed();
  }

  /** From now on the store is asked nothing more. */
  close(): void {
    this.isClosed = true;
    for (const [number, { options }] of this.waiting) if (options.isOpenEnded) this.giveUp(number, closed());
  }

  /** Starts a native call under a new number and waits until it is settled. */
  run(start: (number: number) => void, options: WaitOptions = {}): Promise<string | null> {
    return this.wait(this.next(), start, options);
  }

  wait(number: number, start: (number: number) => void, options: WaitOptions = {}): Promise<string | null> {
    const { signal, background = false } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const giveUp = () => this.giveUp(number, signal?.reason);
      const done = () => signal?.removeEventListener("abort", giveUp);
      this.waiting.set(number, {
        resolve: (value) => (done(), resolve(value)),
        reject: (error) => (done(), reject(error as Error)),
        options,
      });
      if (!background && this.foreground++ === 0) this.alive.ref();
      signal?.addEventListener("abort", giveUp, { once: true });
      try {
        start(number);
      } catch (error) {
        this.take(number)?.reject(caught(error));
      }
    });
  }

  /** Gives up a call that waits, with what its caller is told; without that it is never settled. */
  giveUp(number: number, reason?: unknown): void {
    const waiting = this.take(number);
    if (!waiting) return;
    this.native.giveUp(number);
    if (reason !== undefined) waiting.reject(reason);
  }

  private take(number: number): Waiting | undefined {
    const waiting = this.waiting.get(number);
    if (!waiting) return undefined;
    this.waiting.delete(number);
    if (!waiting.options.background && --this.foreground === 0) this.alive.unref();
    return waiting;
  }

  private settle(number: number, error: string | null, value: string | null): void {
    const waiting = this.take(number);
    if (error == null) waiting?.resolve(value ?? null);
    else waiting?.reject(refused(error));
  }

  private async decide(question: number, strategy: string, failure: string): Promise<void> {
    try {
      const decide = this.strategies.get(strategy);
      if (!decide) throw new Error(`no strategy ${strategy} is registered`);
      const decision = await decide(parse(failure) as Record<string, unknown>);
      const answer = typeof decision === "string" ? { decision } : decision;
      this.native.decided(question, write(answer, `the decision of the strategy ${strategy}`), null);
    } catch (error) {
      this.native.decided(question, null, error instanceof Error ? error.message : String(error));
    }
  }
}
