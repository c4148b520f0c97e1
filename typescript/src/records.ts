import type { Relight } from "./client.js";
import type { Json } from "./json.js";

/** A small named JSON document. */
export interface StoredRecord<T = Json> {
  record: string;
  value: T;
}

/** Small named JSON documents in the store, for adapters of other frameworks. */
export class Records {
  /** @internal */
  constructor(private readonly store: () => Promise<Relight>) {}

  /** What it holds; `null` when it does not exist. */
  async get<T = Json>(record: string): Promise<T | null> {
    return (await (await this.store()).call<StoredRecord<T | null>>("record.get", { record })).value;
  }

  /**
   * Writes it, on disk when it returns. With `expected` only if it holds that now, with `isNew` only if it does not
   * exist; false when that is not so.
   */
  async put(record: string, value: unknown, when: { expected?: unknown; isNew?: boolean } = {}): Promise<boolean> {
    const given = { record, value, expected: when.expected, new: when.isNew };
    return (await (await this.store()).call<{ written: boolean }>("record.put", given)).written;
  }

  /** Those whose names start with `under`, in the order of their names. */
  async list<T = Json>(
    under: string,
    options: { after?: string; descending?: boolean; limit?: number } = {},
  ): Promise<{ items: StoredRecord<T>[]; next: string | null }> {
    return (await this.store()).call("record.list", { under, ...options });
  }

  /** All of them, page by page. */
  async *all<T = Json>(under: string, options: { descending?: boolean; limit?: number } = {}): AsyncGenerator<StoredRecord<T>> {
    let after: string | undefined;
    do {
      const page = await this.list<T>(under, after === undefined ? options : { ...options, after });
      yield* page.items;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  /** Removes one by its name, or all whose names start with `under`. Answers how many. */
  async remove(which: { record: string } | { under: string }): Promise<number> {
    return (await (await this.store()).call<{ removed: number }>("record.remove", which)).removed;
  }
}
