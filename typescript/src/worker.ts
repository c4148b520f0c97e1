import type { Relight, Work } from "./client.js";
import { Fenced } from "./errors.js";
import { errorText } from "./task.js";
import type { Task } from "./task.js";

/** Who works, and until when. */
export interface WorkerOptions {
  /** The name under which it takes tasks; `$RELIGHT_AGENT` when none. */
  agent?: string;
  skills?: string[];
  /** How many tasks at a time; 1 when none. */
  atOnce?: number;
  /** Ends when there is nothing to take, instead of waiting. */
  untilEmpty?: boolean;
  /** Takes nothing more once it is aborted, and ends when what it works on has ended. */
  signal?: AbortSignal;
  lease?: string;
  /** Is told how each task ended. */
  onEnd?: (task: string, how: keyof Worked, error?: unknown) => void;
}

/** How many tasks ended how. */
export interface Worked {
  done: number;
  /** Waiting for a person. */
  blocked: number;
  /** Continuing later. */
  deferred: number;
  /** Failed, and given to their strategy. */
  failed: number;
  /** Taken over by another holder, or let go by the work itself. */
  lost: number;
}

/** How long one question for work waits. */
const WAIT = "1h";

/**
 * Works through the queue. An error of one task stops neither the others nor the worker. When the store refuses to give
 * work or to record an end, nothing more is taken, and that is the error once what is worked on has ended.
 */
export async function work(relight: Relight, options: WorkerOptions, doWork: Work<unknown>): Promise<Worked> {
  const worked: Worked = { done: 0, blocked: 0, deferred: 0, failed: 0, lost: 0 };
  const { signal, untilEmpty = false, atOnce = 1 } = options;
  const stop = new AbortController();
  const stopAll = () => stop.abort();
  if (signal?.aborted) stopAll();
  signal?.addEventListener("abort", stopAll, { once: true });
  const slot = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const task = await claim(relight, options, stop.signal);
      if (task) {
        const [how, error] = await one(task, doWork);
        worked[how] += 1;
        options.onEnd?.(task.id, how, error);
      } else if (untilEmpty) return;
    }
  };
  const slots = Array.from({ length: Math.max(1, atOnce) }, slot);
  for (const running of slots) running.catch(stopAll);
  const ended = await Promise.allSettled(slots);
  signal?.removeEventListener("abort", stopAll);
  const broken = ended.find((slot) => slot.status === "rejected");
  if (broken) throw broken.reason;
  return worked;
}

async function claim(relight: Relight, options: WorkerOptions, signal: AbortSignal): Promise<Task | undefined> {
  const { agent, skills, lease, untilEmpty = false } = options;
  const request = {
    ...(agent === undefined ? {} : { agent }),
    ...(skills === undefined ? {} : { skills }),
    ...(lease === undefined ? {} : { lease }),
    ...(untilEmpty ? {} : { wait: WAIT }),
    signal,
  };
  try {
    return await relight.claim(request);
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

async function one(task: Task, doWork: Work<unknown>): Promise<[keyof Worked, unknown?]> {
  try {
    try {
      await doWork(task);
      if (task.isOver) return [howItEnded(task)];
      await task.done();
      return ["done"];
    } catch (error) {
      if (error instanceof Fenced) return ["lost", error];
      if (task.isOver) return [howItEnded(task), error];
      await task.fail(errorText(error));
      return ["failed", error];
    }
  } catch (error) {
    if (error instanceof Fenced) return ["lost", error];
    throw error;
  } finally {
    task.close();
  }
}

/** Without a word of the work, the task is over because a step in doubt blocked it. */
function howItEnded({ ended = "blocked" }: Task): keyof Worked {
  return ended === "released" ? "lost" : ended;
}
