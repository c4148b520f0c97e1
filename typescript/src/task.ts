import type { Calls } from "./calls.js";
import { caught, Fenced, InDoubt, Refused } from "./errors.js";
import { parse, write } from "./json.js";
import type { Codec, Json } from "./json.js";
import type { BeganStep, NativeTask } from "./native.js";

/** What happens when a step is found begun and not ended. */
export type Repeat = "keyed" | "repeatable" | "verify" | "once";

/** What a step may want to know while it runs. */
export interface StepRun {
  /** Stays the same however often the step is tried; hand it to the other side. */
  readonly idempotencyKey: string;
  /** Which try this is, from 1. */
  readonly tries: number;
  /** Whether an earlier try may have happened. */
  readonly inDoubt: boolean;
}

/** How a step is run and recorded. */
export interface StepOptions<T = unknown> {
  /** Without one `verify` if there is such a function, else `keyed`: run again with the same idempotency key. */
  repeat?: Repeat;
  /** Which use of this name, from 1. Default: counted automatically. */
  occurrence?: number;
  /** What the step depends on: a finished step asked for with another input is refused. */
  input?: unknown;
  /** Says whether a step that was cut off happened: the value if it did, `undefined` if it did not. */
  verify?: (run: StepRun) => T | undefined | Promise<T | undefined>;
  /** For values that are not JSON. */
  codec?: Codec<T>;
}

/** A task as it was started. */
export interface Started {
  task: string;
  status: string;
  title: string | null;
  agent: string | null;
  fence: number;
  resumed: boolean;
  done_steps: string[];
  in_doubt: string[];
  next_step: string | null;
  context: Record<string, string>;
  payload: Json;
}

/** What a strategy made of a failure. */
export interface Recovered {
  decision: string | null;
  reason?: string | null;
  [field: string]: unknown;
}

/** How the program ended its work on a task. */
export type TaskEnding = "done" | "failed" | "blocked" | "deferred" | "released";

const [LATER, DONE, VERIFY] = [0, 2, 3];
const ENDINGS = { done: "done", fail: "failed", block: "blocked", defer: "deferred" } as const;

/**
 * A task under the lease of this process.
 *
 * Let go without an end (`await using`, `close`), it is interrupted, and anybody may continue it.
 */
export class Task implements AsyncDisposable {
  private loss: AbortController | undefined;
  /** The number of the call that waits for the loss. */
  private watch: number | undefined;
  private ending: TaskEnding | undefined;

  /** @internal */
  constructor(
    private readonly calls: Calls,
    private readonly handle: NativeTask,
    private readonly started: Started,
  ) {
    calls.held.add(this);
  }

  get id(): string {
    return this.started.task;
  }

  /** The number of the lease. */
  get fence(): number {
    return this.started.fence;
  }

  /** Whether somebody worked on it before. */
  get resumed(): boolean {
    return this.started.resumed;
  }

  /** What was asked for. */
  get payload(): Json {
    return this.started.payload;
  }

  /** What the holders before wrote down. */
  get context(): Readonly<Record<string, string>> {
    return this.started.context;
  }

  /** The task as it was when this handle was made. */
  get record(): Readonly<Started> {
    return this.started;
  }

  /** How the program ended it, `released` if it let it go; `undefined` while it works on it. */
  get ended(): TaskEnding | undefined {
    return this.ending;
  }

  /** Whether the lease of this handle has ended. */
  get isOver(): boolean {
    return this.handle.isOver();
  }

  /** Runs a step, or gives its recorded value when it is finished. The value is what JSON gives back. */
  step<T>(name: string, run: (run: StepRun) => T | Promise<T>): Promise<T>;
  step<T>(name: string, options: StepOptions<T>, run: (run: StepRun) => T | Promise<T>): Promise<T>;
  async step<T>(
    name: string,
    second: StepOptions<T> | ((run: StepRun) => T | Promise<T>),
    third?: (run: StepRun) => T | Promise<T>,
  ): Promise<T> {
    const options = typeof second === "function" ? {} : second;
    const run = typeof second === "function" ? second : third;
    if (typeof run !== "function") throw new TypeError(`step ${name} needs a function`);
    const { handle } = this;
    const number = this.calls.next();
    let began = this.begin(number, name, options);
    if (began.state === LATER) {
      const text = await this.run(() => {}, number);
      const { in_doubt: inDoubt, ...rest } = parse(text ?? "{}") as BeganStep & { in_doubt: boolean };
      began = { ...rest, inDoubt };
    }
    if (began.state === DONE) return read(began.value, options.codec);
    const about = stepRun(handle, number, began);
    const what = `step ${name} of task ${this.id}`;
    if (began.state === VERIFY) {
      const happened = await this.verified(number, what, options, about);
      if (happened) return this.finish(number, happened);
      await this.run((call) => handle.stepDidNotHappen(call, number));
    }
    let given: Recorded<T>;
    let hasHappened = false;
    try {
      const value = await run(about);
      hasHappened = true;
      given = recorded(value, what, options.codec);
    } catch (error) {
      // What happened and must not be repeated is no failed try: it stays in doubt.
      if (hasHappened && !mayRepeat(options)) handle.dropStep(number);
      else await this.run((call) => handle.failStep(call, number, errorText(error)));
      throw error;
    }
    return this.finish(number, given);
  }

  private begin(number: number, name: string, options: StepOptions<never> | StepOptions): BeganStep {
    const input = options.input === undefined ? null : write(options.input, `the input of step ${name}`);
    const repeat = ruleOf(options);
    try {
      return this.handle.beginStep(number, name, repeat, options.occurrence ?? null, input);
    } catch (error) {
      throw this.noticed(caught(error));
    }
  }

  /** What a step in doubt gave, if it happened. It stays in doubt when that cannot be said. */
  private async verified<T>(
    number: number,
    what: string,
    options: StepOptions<T>,
    about: StepRun,
  ): Promise<Recorded<T> | undefined> {
    try {
      if (options.verify) {
        const value = await options.verify(about);
        return value === undefined ? undefined : recorded(value, what, options.codec);
      }
    } catch (error) {
      this.handle.dropStep(number);
      throw error;
    }
    this.handle.dropStep(number);
    throw new InDoubt({
      code: "in_doubt",
      exit: 75,
      status: 409,
      message: `${what} is in doubt`,
      hint: "give the step a function verify, or: relight step resolve",
    });
  }

  private async finish<T>(number: number, { text, value }: Recorded<T>): Promise<T> {
    await this.run((call) => this.handle.finishStep(call, number, text));
    return value;
  }

  /** Adds context for a successor. */
  async set(pairs: Record<string, string>): Promise<void> {
    await this.run((call) => this.handle.set(call, JSON.stringify(pairs)));
  }

  /** Adds to what the task has cost, such as `"0.25"`, and to the turns of a model that it took. */
  async spend(usage: { cost?: string; turns?: number }): Promise<void> {
    await this.run((call) => this.handle.spend(call, usage.cost ?? null, usage.turns ?? 0));
  }

  /** Closes a declared step on purpose without doing it. */
  async skip(step: string, reason: string): Promise<void> {
    await this.run((call) => this.handle.skip(call, step, reason));
  }

  /** It is finished. Refused while declared steps are neither finished nor skipped. */
  async done(): Promise<void> {
    await this.end("done", "");
  }

  /** Records that it failed; its strategy decides what happens next. */
  async fail(reason: string): Promise<Recovered> {
    return (await this.end("fail", reason)) as Recovered;
  }

  /** It cannot continue before a person acts. */
  async block(reason: string): Promise<void> {
    await this.end("block", reason);
  }

  /** It continues later: a time, or a duration such as `10m`. */
  async defer(until: string): Promise<void> {
    await this.end("defer", until);
  }

  private async end(how: keyof typeof ENDINGS, why: string): Promise<unknown> {
    try {
      const text = await this.run((call) => this.handle.end(call, how, why));
      this.ending = ENDINGS[how];
      this.letGo();
      return parse(text ?? "null") as unknown;
    } catch (error) {
      // Refused for another reason, the work on it continues.
      if (error instanceof Fenced || this.isOver) this.calls.held.delete(this);
      throw error;
    }
  }

  private letGo(): void {
    this.calls.held.delete(this);
    // The call that waits for the loss has the lease too.
    if (this.watch !== undefined) this.calls.giveUp(this.watch);
  }

  private async run(start: (number: number) => void, number = this.calls.next()): Promise<string | null> {
    try {
      return await this.calls.wait(number, start);
    } catch (error) {
      throw this.noticed(error);
    }
  }

  /** What drops the work need not wait for the call that waits for the loss. */
  private noticed(error: unknown): unknown {
    if (error instanceof Fenced) this.loss?.abort(error);
    return error;
  }

  /** Aborted when another holder has the lease: whatever is being done should be dropped. */
  get signal(): AbortSignal {
    if (!this.loss) {
      const loss = (this.loss = new AbortController());
      const watch = (this.watch = this.calls.next());
      const lost = this.calls.wait(watch, (call) => this.handle.lost(call), { background: true });
      lost.catch((error: unknown) => loss.abort(error));
    }
    return this.loss.signal;
  }

  /** Lets it go. Interrupted if it was not ended, and anybody may continue it. */
  close(): void {
    this.ending ??= "released";
    this.letGo();
    this.handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}

function ruleOf<T>(options: StepOptions<T>): Repeat | null {
  return options.repeat ?? (options.verify ? "verify" : null);
}

function mayRepeat<T>(options: StepOptions<T>): boolean {
  const rule = ruleOf(options);
  return rule !== "once" && rule !== "verify";
}

function stepRun(handle: NativeTask, step: number, began: BeganStep): StepRun {
  let key: string | undefined;
  return {
    tries: began.tries,
    inDoubt: began.inDoubt,
    get idempotencyKey() {
      return (key ??= handle.stepKey(step) ?? "");
    },
  };
}

/** The text of a value, and the value as a replay gives it: the first run must not differ from the next. */
interface Recorded<T> {
  text: string;
  value: T;
}

function recorded<T>(value: T, what: string, codec: Codec<T> | undefined): Recorded<T> {
  const text = write(codec ? codec.encode(value) : value, what);
  const isSame = !codec && (value === null || typeof value === "string" || typeof value === "boolean");
  return { text, value: isSame ? value : read(text, codec) };
}

function read<T>(text: string | undefined, codec: Codec<T> | undefined): T {
  const value = parse(text ?? "null") as unknown;
  return codec ? codec.decode(value) : (value as T);
}

export function errorText(error: unknown): string {
  if (error instanceof Refused) return error.message;
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.trim() || "it failed with an error without a text";
}
