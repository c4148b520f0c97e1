/** What went wrong, as every front of Relight says it. */
export interface RefusedFields {
  code: string;
  exit: number;
  status: number;
  message: string;
  hint?: string | null;
}

/** Relight did not do it. `code` is for programs, `hint` says what to do next. */
export class Refused extends Error {
  /** What happened, such as `fenced`, `held`, `not_found`. */
  readonly code: string;
  /** The exit code of the command line for the same. */
  readonly exit: number;
  /** The HTTP status for the same. */
  readonly status: number;
  /** What to do next. */
  readonly hint: string | undefined;

  constructor(fields: RefusedFields) {
    super(fields.message);
    this.name = new.target.name;
    this.code = fields.code;
    this.exit = fields.exit;
    this.status = fields.status;
    this.hint = fields.hint ?? undefined;
  }
}

/** Another holder has the lease; what was done here is not recorded. */
export class Fenced extends Refused {}

/** Another holder has the task, the turn or the agent now. */
export class Held extends Refused {}

/** A step was begun and not ended, and must not be repeated before a person has found out. */
export class InDoubt extends Refused {}

/** There is no such task, session or agent. */
export class NotFound extends Refused {}

/** There is nothing to claim or to resume. */
export class Nothing extends Refused {}

/** It differs from what is there, or the status does not allow it. */
export class Conflict extends Refused {}

/** The task has ended. */
export class Ended extends Refused {}

/** It is blocked or suspended: a person decides. */
export class WaitsForPerson extends Refused {}

/** It has reached a limit of its own. */
export class UsedUp extends Refused {}

/** Declared steps are neither finished nor skipped. */
export class StepsLeftOpen extends Refused {}

/** A value that cannot be one. */
export class Invalid extends Refused {}

/** Nothing is begun now. */
export class Draining extends Refused {}

/** The store cannot be reached, read or written; nothing was acknowledged. */
export class StoreError extends Refused {}

// The same table as in Python, without `forked`: Node does not fork.
const CLASSES: Record<string, typeof Refused> = {
  fenced: Fenced,
  not_held: Fenced,
  held: Held,
  busy: Held,
  in_doubt: InDoubt,
  not_found: NotFound,
  nothing: Nothing,
  conflict: Conflict,
  illegal: Conflict,
  ended: Ended,
  waits_for_person: WaitsForPerson,
  used_up: UsedUp,
  steps_left_open: StepsLeftOpen,
  invalid: Invalid,
  draining: Draining,
  io: StoreError,
  config: StoreError,
  damaged: StoreError,
  invalid_data: StoreError,
  unreachable: StoreError,
  store_unavailable: StoreError,
};

/** The error for what the native module says. */
export function refused(text: string): Refused {
  const fields = JSON.parse(text) as RefusedFields;
  return new (CLASSES[fields.code] ?? Refused)(fields);
}

/** An error that the native module threw: its text is JSON where Relight refused. */
export function caught(error: unknown): Error {
  if (error instanceof Error && error.message.startsWith("{")) return refused(error.message);
  return error instanceof Error ? error : new Error(String(error));
}

export function invalid(message: string, hint?: string): Refused {
  return new Invalid({ code: "invalid", exit: 2, status: 422, message, hint: hint ?? null });
}

export function closed(): Refused {
  const message = "this store was closed: its use has ended";
  return new Conflict({ code: "conflict", exit: 1, status: 409, message, hint: "open it again" });
}
