// The layout of the records is in docs/guides/langgraph.md; the saver for Python writes the same.
import { isDeepStrictEqual } from "node:util";

import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  TASKS,
  WRITES_IDX_MAP,
  copyCheckpoint,
  getCheckpointId,
  maxChannelVersion,
} from "@langchain/langgraph-checkpoint";
import type {
  ChannelVersions,
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  PendingWrite,
  SerializerProtocol,
} from "@langchain/langgraph-checkpoint";

import { usualStore } from "./index.js";
import type { Relight, StoredRecord } from "./index.js";

type Data = { type: string; json: unknown } | { type: string; base64: string };
type Write = [index: number, channel: string, data: Data];

interface SavedCheckpoint {
  parent: string | null;
  checkpoint: Data;
  metadata: Data;
}

interface SavedWrites {
  path: string;
  writes: Write[];
}

/** Which checkpoint; the newest of the namespace without an id. */
interface Place {
  thread: string;
  namespace: string;
  id: string | undefined;
}

/** Tries of a change to a record that others change too. */
const TRIES_MAX = 100;
/** How many checkpoints of a list are read at once. */
const PAGE = 50;

/** Keeps the threads of LangGraph in Relight's store. */
export class RelightSaver extends BaseCheckpointSaver {
  private readonly store: () => Promise<Relight>;

  /** Without a store it uses the one that the command line uses. */
  constructor(store?: Relight, serde?: SerializerProtocol) {
    super(serde);
    this.store = store ? () => Promise.resolve(store) : usualStore;
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const place = placeOf(config);
    if (place === undefined) return undefined;
    const { records } = await this.store();
    if (place.id === undefined) {
      const under = name(place.thread, place.namespace, "checkpoint", "");
      const page = await records.list<SavedCheckpoint>(under, { descending: true, limit: 1 });
      const newest = page.items[0];
      return newest && this.tuple({ ...place, id: parts(newest.record).id }, newest.value);
    }
    const saved = await records.get<SavedCheckpoint>(name(place.thread, place.namespace, "checkpoint", place.id));
    // The caller's own configuration, with what else is in it.
    return saved ? { ...(await this.tuple({ ...place, id: place.id }, saved)), config } : undefined;
  }

  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { before, limit, filter } = options;
    const { id, thread, namespace } = configured(config);
    const beforeId = before ? getCheckpointId(before) || undefined : undefined;
    let left = limit ?? Number.POSITIVE_INFINITY;
    if (left <= 0) return;
    for await (const saved of this.saved(thread, namespace, beforeId)) {
      const place = parts(saved.record);
      if (id !== undefined && place.id !== id) continue;
      if (beforeId !== undefined && place.id >= beforeId) continue;
      const metadata = (await this.load(saved.value.metadata)) as Record<string, unknown>;
      if (filter && !Object.entries(filter).every(([key, value]) => isDeepStrictEqual(metadata[key], value))) continue;
      yield await this.tuple(place, saved.value);
      left -= 1;
      if (left <= 0) return;
    }
  }

  async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions,
  ): Promise<RunnableConfig> {
    const { thread, namespace, parent } = writable(config, "checkpoint");
    const copy = copyCheckpoint(checkpoint);
    if (parent === null) {
      // Without a parent that had them, only channels with a new version have a value.
      const values = Object.entries(copy.channel_values).filter(([channel]) => channel in newVersions);
      copy.channel_values = Object.fromEntries(values);
    }
    const [saved, about] = await Promise.all([this.dump(copy), this.dump(metadata)]);
    const value: SavedCheckpoint = { parent, checkpoint: saved, metadata: about };
    const { records } = await this.store();
    await records.put(name(thread, namespace, "checkpoint", checkpoint.id), value);
    return configFor({ thread, namespace, id: checkpoint.id });
  }

  async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const { thread, namespace, parent: id } = writable(config, "writes");
    if (id === null) {
      throw new Error('Failed to put writes. The passed RunnableConfig has no "checkpoint_id" in "configurable".');
    }
    const given = await Promise.all(
      writes.map(async ([channel, value], index): Promise<Write> => {
        return [WRITES_IDX_MAP[channel as string] ?? index, channel as string, await this.dump(value)];
      }),
    );
    const record = `${name(thread, namespace, "writes", id)}/${encode(taskId)}`;
    const { records } = await this.store();
    if (await records.put(record, { path: "", writes: merged([], given) } satisfies SavedWrites, { isNew: true })) return;
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const expected = await records.get<SavedWrites>(record);
      const value: SavedWrites = { path: expected?.path ?? "", writes: merged(expected?.writes ?? [], given) };
      if (await records.put(record, value, expected ? { expected } : { isNew: true })) return;
    }
    throw new Error(`the writes of task ${taskId} are changed by others all the time`);
  }

  async deleteThread(threadId: string): Promise<void> {
    const { records } = await this.store();
    await records.remove({ under: `langgraph/${encode(threadId)}/` });
  }

  /** Saved checkpoints, newest first within each namespace. */
  private async *saved(
    thread: string | undefined,
    namespace: string | undefined,
    before: string | undefined,
  ): AsyncGenerator<StoredRecord<SavedCheckpoint>> {
    const { records } = await this.store();
    if (thread !== undefined && namespace !== undefined) {
      const under = name(thread, namespace, "checkpoint", "");
      const start = before === undefined ? {} : { after: under + encode(before) };
      let after: { after?: string } | undefined = start;
      while (after) {
        const page: { items: StoredRecord<SavedCheckpoint>[]; next: string | null } = await records.list(under, {
          ...after,
          descending: true,
          limit: PAGE,
        });
        yield* page.items;
        after = page.next === null ? undefined : { after: page.next };
      }
      return;
    }
    const under = thread === undefined ? "langgraph/" : `langgraph/${encode(thread)}/`;
    for await (const item of records.all<SavedCheckpoint>(under, { descending: true })) {
      const place = parts(item.record);
      const isWanted = namespace === undefined || place.namespace === namespace;
      if (place.kind === "checkpoint" && isWanted) yield item;
    }
  }

  private async tuple(place: Place & { id: string }, saved: SavedCheckpoint): Promise<CheckpointTuple> {
    const [checkpoint, metadata, pendingWrites] = await Promise.all([
      this.load(saved.checkpoint) as Promise<Checkpoint>,
      this.load(saved.metadata) as Promise<CheckpointMetadata>,
      this.writes(place),
    ]);
    const parent = saved.parent === null ? undefined : { ...place, id: saved.parent };
    if (checkpoint.v < 4 && parent) await this.movePendingSends(checkpoint, parent);
    return {
      config: configFor(place),
      checkpoint,
      metadata,
      pendingWrites,
      ...(parent ? { parentConfig: configFor(parent) } : {}),
    };
  }

  private async writes(place: Place & { id: string }): Promise<CheckpointPendingWrite[]> {
    const { records } = await this.store();
    const found: Promise<CheckpointPendingWrite>[] = [];
    for await (const { record, value } of records.all<SavedWrites>(`${name(place.thread, place.namespace, "writes", place.id)}/`)) {
      const task = parts(record).task;
      for (const [, channel, data] of value.writes) {
        found.push(this.load(data).then((loaded) => [task, channel, loaded] as CheckpointPendingWrite));
      }
    }
    return Promise.all(found);
  }

  /** Checkpoints of old versions have what was sent among the writes of their parent. */
  private async movePendingSends(checkpoint: Checkpoint, parent: Place & { id: string }): Promise<void> {
    const writes = await this.writes(parent);
    checkpoint.channel_values[TASKS] = writes.filter(([, channel]) => channel === TASKS).map(([, , value]) => value);
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] = versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  private async dump(value: unknown): Promise<Data> {
    const [type, bytes] = await this.serde.dumpsTyped(value);
    if (type === "json") return { type, json: JSON.parse(new TextDecoder().decode(bytes)) as unknown };
    return { type, base64: Buffer.from(bytes).toString("base64") };
  }

  private async load(data: Data): Promise<unknown> {
    if ("base64" in data) return this.serde.loadsTyped(data.type, new Uint8Array(Buffer.from(data.base64, "base64"))) as Promise<unknown>;
    // LangGraph has numbers only.
    const numbers = (_: string, item: unknown) => (typeof item === "bigint" ? Number(item) : item);
    return this.serde.loadsTyped(data.type, JSON.stringify(data.json, numbers)) as Promise<unknown>;
  }
}

/** What is there stays, except errors and interrupts, whose index is negative. */
function merged(there: Write[], given: Write[]): Write[] {
  const writes = new Map(there.map((write) => [write[0], write]));
  for (const write of given) {
    if (write[0] < 0 || !writes.has(write[0])) writes.set(write[0], write);
  }
  return [...writes.values()].sort((a, b) => a[0] - b[0]);
}

function name(thread: string, namespace: string, kind: "checkpoint" | "writes", id: string): string {
  return `langgraph/${encode(thread)}/${encode(namespace)}/${kind}/${encode(id)}`;
}

function parts(record: string): Place & { id: string; kind: string; task: string } {
  const [, thread = "", namespace = "", kind = "", id = "", task = ""] = record.split("/").map(decodeURIComponent);
  return { thread, namespace, kind, id, task };
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);
}

function configured(config: RunnableConfig): { thread: string | undefined; namespace: string | undefined; id: string | undefined } {
  const { thread_id: thread, checkpoint_ns: namespace } = config.configurable ?? {};
  return {
    thread: thread === undefined ? undefined : String(thread),
    namespace: namespace === undefined ? undefined : String(namespace),
    id: getCheckpointId(config) || undefined,
  };
}

function placeOf(config: RunnableConfig): Place | undefined {
  const { thread, namespace = "", id } = configured(config);
  return thread === undefined ? undefined : { thread, namespace, id };
}

function writable(config: RunnableConfig, what: string): { thread: string; namespace: string; parent: string | null } {
  const place = placeOf(config);
  if (place === undefined) {
    throw new Error(`Failed to put ${what}. The passed RunnableConfig has no "thread_id" in "configurable".`);
  }
  return { thread: place.thread, namespace: place.namespace, parent: place.id ?? null };
}

function configFor({ thread, namespace, id }: Place & { id: string }): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: namespace, checkpoint_id: id } };
}
