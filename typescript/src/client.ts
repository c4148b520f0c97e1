import { Calls } from "./calls.js";
import type { Decide } from "./calls.js";
import { parse, snake, write } from "./json.js";
import type { Json } from "./json.js";
import { native } from "./native.js";
import type { NativeTask } from "./native.js";
import { Records } from "./records.js";
import { Sessions } from "./sessions.js";
import { errorText, Task } from "./task.js";
import type { Started } from "./task.js";
import { work } from "./worker.js";
import type { Worked, WorkerOptions } from "./worker.js";

/** Which store. What is left out is as for the command line. */
export interface OpenOptions {
  /** The folder of the state; `$RELIGHT_HOME` and the usual place otherwise. */
  home?: string;
  /** `sqlite:PATH`, `postgres://…` or `memory:`; `$RELIGHT_STORE` and `relight.db` in the home otherwise. */
  store?: string;
  /** The agent that calls; `$RELIGHT_AGENT` otherwise. */
  agent?: string;
  /** Recovery strategies of the program's own, by name. */
  strategies?: Record<string, RecoveryStrategy | Decide>;
  /** The strategy of tasks that choose none. */
  defaultStrategy?: string;
}

/** Decides what happens to a task whose holder died or that failed. */
export interface RecoveryStrategy {
  /** Gets what an `exec` strategy gets on standard input; answers what it prints. */
  decide(failure: Record<string, unknown>): Decision | Promise<Decision>;
}

/** What happens to the task. */
export type Decision =
  | "resume"
  | "reassign"
  | "suspend"
  | "give_up"
  | {
      decision: "resume" | "reassign" | "suspend" | "defer" | "give_up";
      reason?: string;
      until?: string;
      keep_progress?: boolean;
    };

/** What a task is, if it does not exist. */
export interface TaskOptions {
  title?: string;
  /** Whose task it is. */
  agent?: string;
  /** The declared steps, in order. */
  steps?: string[];
  /** Any JSON, for the agent that works on it. */
  payload?: Json;
  strategy?: string;
  maxRetries?: number;
  /** What makes two requests the same request. */
  key?: string;
  /** Larger goes first. */
  priority?: number;
  /** Skills that an agent needs. */
  needs?: string[];
  /** How long it is worth resuming, such as `2h`. */
  ttl?: string;
  /** First context for a successor. */
  set?: Record<string, string>;
}

/** How a task is started. */
export interface StartOptions extends TaskOptions {
  /** Holds it for so long, renewed in the background, instead of for as long as the process lives. */
  lease?: string;
  /** Start it even if it waits for a person, or has used up its budget. */
  force?: boolean;
}

/** Who looks for work. */
export interface ClaimOptions {
  agent?: string;
  skills?: string[];
  /** How long to wait for work, such as `30s`; not at all when none. */
  wait?: string;
  lease?: string;
  signal?: AbortSignal;
}

/** An open store. */
export class Relight implements AsyncDisposable {
  /** Turns of conversations. */
  readonly sessions: Sessions;
  /** Small named JSON documents. */
  readonly records: Records;

  private constructor(
    /** @internal */
    readonly calls: Calls,
    private readonly agent: string | undefined,
  ) {
    const self = () => Promise.resolve(this);
    this.sessions = new Sessions(self);
    this.records = new Records(self);
  }

  /** Opens a store, creating it when there is none. */
  static async open(options: OpenOptions = {}): Promise<Relight> {
    const strategies = new Map<string, Decide>();
    for (const [name, strategy] of Object.entries(options.strategies ?? {})) {
      strategies.set(name, typeof strategy === "function" ? strategy : (failure) => strategy.decide(failure));
    }
    const calls = new Calls(strategies);
    const request = { ...snake(options), strategies: [...strategies.keys()] };
    await calls.run((number) => calls.native.open(number, JSON.stringify(request)));
    return new Relight(calls, options.agent);
  }

  /** The folder of the state. */
  get home(): string {
    this.calls.checkOpen();
    return this.calls.native.home();
  }

  /** Runs an operation by its name, such as `task.show`: the JSON of the command line. */
  async call<T = Record<string, unknown>>(operation: string, given: object = {}, signal?: AbortSignal): Promise<T> {
    this.calls.checkOpen();
    const text = write(given, operation);
    const isOpenEnded = "wait" in given;
    const options = { signal, isOpenEnded };
    const answer = await this.calls.run((number) => this.calls.native.call(number, operation, text), options);
    return parse(answer ?? "null") as T;
  }

  /** Starts a task, or continues it where it was. */
  async task(id: string, options: StartOptions = {}): Promise<Task> {
    this.calls.checkOpen();
    const handle = new (native().NativeTask)(this.calls.native);
    const request = write({ ...snake(options), task: id }, `task ${id}`);
    const text = await this.calls.run((number) => handle.start(number, request));
    return new Task(this.calls, handle, parse(text ?? "null") as Started);
  }

  /**
   * Starts or continues a task, does the work and ends the task by how it ends: done, or failed with the error,
   * which is thrown again.
   */
  async run<T>(id: string, ...rest: [work: Work<T>] | [options: StartOptions, work: Work<T>]): Promise<T> {
    const [options, doWork] = rest.length === 1 ? [{}, rest[0]] : rest;
    const task = await this.task(id, options);
    try {
      const value = await doWork(task);
      if (!task.isOver) await task.done();
      return value;
    } catch (error) {
      if (!task.isOver) await task.fail(errorText(error)).catch(() => undefined);
      throw error;
    } finally {
      task.close();
    }
  }

  /** Adds a task to the queue. The same one again changes nothing. */
  async add(id: string, options: TaskOptions = {}): Promise<Record<string, unknown>> {
    return this.call("task.add", { ...snake(options), id });
  }

  /** Takes the best task that there is for an agent; `undefined` when there is none. */
  async claim(options: ClaimOptions = {}): Promise<Task | undefined> {
    this.calls.checkOpen();
    const { signal, ...fields } = options;
    const handle = new (native().NativeTask)(this.calls.native);
    const request = JSON.stringify(snake({ agent: this.agent, ...fields }));
    const claiming = this.calls.run((number) => handle.claim(number, request), { signal, isOpenEnded: true });
    const text = await claiming.catch((error: unknown) => {
      abandon(handle);
      throw error;
    });
    return text === null ? undefined : new Task(this.calls, handle, parse(text) as Started);
  }

  /** Works through the queue until it is told to stop; see `WorkerOptions`. */
  worker(options: WorkerOptions, doWork: Work<unknown>): Promise<Worked> {
    return work(this, options, doWork);
  }

  /** Finds what dead holders left and gives each task to its strategy. */
  recover(): Promise<Record<string, unknown>> {
    return this.call("recover");
  }

  /**
   * Ends the use of this store: later calls are refused, and claims that wait are given up. Tasks and turns that are
   * open can still be worked on and ended.
   */
  async close(): Promise<void> {
    this.calls.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** How long a native call that was given up may still be ending on its thread. */
const ENDING_MS = 1_000;

/** Lets go of what a claim that was given up has taken, or is taking at this moment on another thread. */
function abandon(handle: NativeTask): void {
  handle.close();
  setTimeout(() => handle.close(), ENDING_MS).unref();
}

/** Work on a task. */
export type Work<T> = (task: Task) => T | Promise<T>;
