import { Relight } from "./client.js";
import type { OpenOptions, StartOptions, TaskOptions, Work } from "./client.js";
import { caught } from "./errors.js";
import { native } from "./native.js";
import { Records } from "./records.js";
import { Sessions } from "./sessions.js";
import type { Task } from "./task.js";
import type { Worked, WorkerOptions } from "./worker.js";

export { Relight } from "./client.js";
export type {
  ClaimOptions,
  Decision,
  OpenOptions,
  RecoveryStrategy,
  StartOptions,
  TaskOptions,
  Work,
} from "./client.js";
export {
  Conflict,
  Draining,
  Ended,
  Fenced,
  Held,
  InDoubt,
  Invalid,
  NotFound,
  Nothing,
  Refused,
  StepsLeftOpen,
  StoreError,
  UsedUp,
  WaitsForPerson,
} from "./errors.js";
export type { Codec, Json } from "./json.js";
export { Records } from "./records.js";
export type { StoredRecord } from "./records.js";
export { Sessions, Turn } from "./sessions.js";
export type { BegunTurn, RecoverOptions, TurnOptions } from "./sessions.js";
export { Task } from "./task.js";
export type { Recovered, Repeat, Started, StepOptions, StepRun, TaskEnding } from "./task.js";
export type { Worked, WorkerOptions } from "./worker.js";

let usual: Promise<Relight> | undefined;

/** Opens a store; without options the one that the command line uses. */
export function open(options?: OpenOptions): Promise<Relight> {
  return Relight.open(options);
}

/** The store that the command line uses, opened once for all callers. */
export function usualStore(): Promise<Relight> {
  if (!usual) {
    usual = Relight.open();
    // One that could not be opened is tried again.
    usual.catch(() => (usual = undefined));
  }
  return usual;
}

/** Ends the use of that store; the next use opens it again. */
export async function close(): Promise<void> {
  const there = usual;
  usual = undefined;
  await (await there)?.close();
}

/** Turns of conversations. */
export const sessions = new Sessions(usualStore);

/** Small named JSON documents. */
export const records = new Records(usualStore);

/** Starts a task, or continues it where it was. */
export async function task(id: string, options?: StartOptions): Promise<Task> {
  return (await usualStore()).task(id, options);
}

/** Starts or continues a task, does the work and ends the task by how it ends. */
export async function run<T>(id: string, ...rest: [work: Work<T>] | [options: StartOptions, work: Work<T>]): Promise<T> {
  return (await usualStore()).run(id, ...rest);
}

/** Adds a task to the queue. */
export async function add(id: string, options?: TaskOptions): Promise<Record<string, unknown>> {
  return (await usualStore()).add(id, options);
}

/** Works through the queue until it is told to stop. */
export async function worker(options: WorkerOptions, work: Work<unknown>): Promise<Worked> {
  return (await usualStore()).worker(options, work);
}

/** Finds what dead holders left and gives each task to its strategy. */
export async function recover(): Promise<Record<string, unknown>> {
  return (await usualStore()).recover();
}

/**
 * Tells the supervisor of this process that it lives, what it does, and until when it expects to be silent (a time, or
 * a duration such as `10m`). False outside of agents, where nobody listens.
 */
export function beat(status?: string, options: { waitingUntil?: string } = {}): boolean {
  try {
    return native().beat(status ?? null, options.waitingUntil ?? null);
  } catch (error) {
    throw caught(error);
  }
}

/** Runs an operation by its name. */
export async function call<T = Record<string, unknown>>(operation: string, given?: object): Promise<T> {
  return (await usualStore()).call<T>(operation, given);
}

const relight = { Relight, open, usualStore, close, sessions, records, task, run, add, worker, recover, beat, call };
export default relight;
