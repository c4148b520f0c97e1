import { existsSync } from "node:fs";
import { join } from "node:path";

/** What to do with a step: 0 settled later, 1 run it, 2 it is finished, 3 find out whether it happened. */
export interface BeganStep {
  state: number;
  value?: string;
  tries: number;
  inDoubt: boolean;
}

export interface NativeClient {
  open(number: number, options: string): void;
  call(number: number, operation: string, given: string): void;
  giveUp(number: number): void;
  decided(question: number, decision: string | null, error: string | null): void;
  home(): string;
}

export interface NativeTask {
  start(number: number, request: string): void;
  claim(number: number, request: string): void;
  beginStep(
    number: number,
    name: string,
    repeat: string | null,
    occurrence: number | null,
    input: string | null,
  ): BeganStep;
  stepKey(step: number): string | null;
  finishStep(number: number, step: number, value: string): void;
  failStep(number: number, step: number, error: string): void;
  stepDidNotHappen(number: number, step: number): void;
  dropStep(step: number): void;
  set(number: number, pairs: string): void;
  spend(number: number, cost: string | null, turns: number): void;
  skip(number: number, step: string, reason: string): void;
  end(number: number, how: string, why: string): void;
  isOver(): boolean;
  lost(number: number): void;
  close(): void;
}

export interface NativeTurn {
  begin(number: number, request: string): void;
  end(number: number): void;
  close(): void;
}

export interface Native {
  NativeClient: new (
    settled: (number: number, error: string | null, value: string | null) => void,
    asked: (question: number, strategy: string, failure: string) => void,
  ) => NativeClient;
  NativeTask: new (client: NativeClient) => NativeTask;
  NativeTurn: new (client: NativeClient) => NativeTurn;
  beat(status: string | null, waitingUntil: string | null): boolean;
}

/** The folder of the native module and of the binary for this machine. */
export function platformFolder(): string {
  return join(__dirname, "..", "..", "native", `${process.platform}-${process.arch}`);
}

let loaded: Native | undefined;

export function native(): Native {
  if (loaded) return loaded;
  const file = join(platformFolder(), "relight.node");
  if (!existsSync(file)) {
    throw new Error(`relight has no native module for ${process.platform}-${process.arch}: there is no ${file}`);
  }
  loaded = require(file) as Native;
  return loaded;
}
