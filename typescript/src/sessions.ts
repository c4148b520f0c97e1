import type { Calls } from "./calls.js";
import type { Relight } from "./client.js";
import { parse, snake } from "./json.js";
import type { Json } from "./json.js";
import { native } from "./native.js";
import type { NativeTurn } from "./native.js";

/** How a turn is begun. */
export interface TurnOptions {
  /** The agent's own id of the conversation. */
  id: string;
  /** Context for resuming it, added to what is there. */
  set?: Record<string, string>;
  /** Marks it for so long, renewed in the background, instead of for as long as the process lives. */
  lease?: string;
}

/** What is done with turns that were cut off. */
export interface RecoverOptions {
  policy?: "suspend" | "resume_pending";
  /** How recently a session that was never marked must have been active, such as `120s`; `0s` finds none. */
  window?: string;
  /** How long a session that is `resume_pending` may wait to be resumed; `0s` for no limit. */
  freshness?: string;
  /** Only says what would be decided. */
  dryRun?: boolean;
}

/** A turn as it was begun. */
export interface BegunTurn {
  key: string;
  session_id: string;
  generation: number;
  resumed: boolean;
  previous_state: string | null;
  reason: string | null;
  deaths_in_a_row: number;
  context: Record<string, string>;
}

type Fields = Record<string, unknown>;

/** Turns of conversations, for gateways. */
export class Sessions {
  /** @internal */
  constructor(private readonly store: () => Promise<Relight>) {}

  /** Marks a turn. On disk when it returns; `await using` gives it up unless it was ended. */
  async begin(key: string, options: TurnOptions): Promise<Turn> {
    const { calls } = await this.store();
    calls.checkOpen();
    const handle = new (native().NativeTurn)(calls.native);
    const request = JSON.stringify({ ...snake(options), key });
    const text = await calls.run((number) => handle.begin(number, request));
    return new Turn(calls, handle, parse(text ?? "null") as BegunTurn);
  }

  /** Ends a turn by its number, for programs that do not keep the `Turn`; an older one is `Fenced`. */
  end(key: string, generation: number): Promise<Fields> {
    return this.call("session.end", { key, generation });
  }

  /** Notes activity in a session whose turns are not marked. */
  touch(key: string, id: string): Promise<Fields> {
    return this.call("session.touch", { key, id });
  }

  /** For the start of a gateway: decides what happens to each session whose turn was cut off. */
  recover(options: RecoverOptions = {}): Promise<Fields> {
    return this.call("session.recover", snake(options));
  }

  /** What a gateway calls at its end: the marks of this process are discarded. */
  shutdown(): Promise<Fields> {
    return this.call("session.shutdown");
  }

  show(key: string): Promise<Fields> {
    return this.call("session.show", { key });
  }

  list(filter: { state?: string | string[]; after?: string; limit?: number } = {}): Promise<{ items: Fields[]; next: string | null }> {
    return this.call("session.list", filter);
  }

  /** Lets a session continue. */
  resume(key: string): Promise<Fields> {
    return this.call("session.resume", { key });
  }

  /** Suspends a session. */
  suspend(key: string, reason?: string): Promise<Fields> {
    return this.call("session.suspend", { key, reason });
  }

  /** Clears a session's mark, reason, deaths and context. */
  clear(key: string): Promise<Fields> {
    return this.call("session.clear", { key });
  }

  /** The turns in flight, as `agent_checkpoints.json` has them. */
  export(): Promise<Record<string, Json>> {
    return this.call("session.export");
  }

  /** Takes in the content of `agent_checkpoints.json`; `ownerPid` is the process that runs those turns. */
  importMarks(marks: Record<string, unknown>, ownerPid?: number): Promise<Fields> {
    return this.call("session.import", { marks, owner_pid: ownerPid });
  }

  private async call<T = Fields>(operation: string, given: object = {}): Promise<T> {
    return (await this.store()).call<T>(operation, given);
  }
}

/** A turn in flight. */
export class Turn implements AsyncDisposable {
  /** @internal */
  constructor(
    private readonly calls: Calls,
    private readonly handle: NativeTurn,
    /** What `session begin --json` shows. */
    readonly begun: Readonly<BegunTurn>,
  ) {
    calls.held.add(this);
  }

  /** Of which session. */
  get key(): string {
    return this.begun.key;
  }

  /** Which turn of the session; an older one cannot end a newer one. */
  get generation(): number {
    return this.begun.generation;
  }

  /** Whether it continues a turn that was cut off. */
  get resumed(): boolean {
    return this.begun.resumed;
  }

  /** What earlier turns wrote down. */
  get context(): Readonly<Record<string, string>> {
    return this.begun.context;
  }

  /** It is finished. Refused when a newer turn was begun meanwhile, or when this one was taken away. */
  async end(): Promise<void> {
    // A turn ends once: refused, it is not ours any more.
    this.calls.held.delete(this);
    await this.calls.run((number) => this.handle.end(number));
  }

  /** Gives it up unless it was ended. */
  close(): void {
    this.calls.held.delete(this);
    this.handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}
