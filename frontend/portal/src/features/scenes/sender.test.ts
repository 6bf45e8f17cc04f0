import { describe, expect, it } from "vitest";
import { Refusal } from "@/api/refusal";
import { digestOfParts, PART_SIZE, type Sums, sumsOf } from "./digest";
import type { Content } from "./plan";
import {
  asking,
  type Confirmed,
  FileChanged,
  NotKept,
  type Patience,
  Paused,
  Sender,
  type Sent,
  type Wire,
} from "./sender";

const noWait: Patience = async () => {};

/** A farm's store in memory, which can lose, refuse and forget. */
class Store implements Wire {
  readonly parts = new Map<string, Map<number, string>>(); // of contents that are not there yet
  readonly there = new Set<string>();
  readonly puts: string[] = [];
  readonly signed: number[] = [];
  /** What to answer to the nth sending instead of taking it. */
  readonly faults = new Map<number, number>();
  losesOnce = new Set<string>();
  constructor(private readonly counts: Map<string, number>) {}

  async finished(digest: string) {
    const parts = [...(this.parts.get(digest) ?? [])].map(([number, sha256]) => ({ number, sha256 }));
    return { there: this.there.has(digest), parts };
  }

  async sign(parts: { digest: string; number: number; sha256: string }[]) {
    this.signed.push(parts.length);
    return parts.map(({ digest, number, sha256 }) => ({
      digest,
      number,
      request: this.there.has(digest) ? null : { method: "PUT", url: `/${digest}/${number}/${sha256}`, headers: {} },
    }));
  }

  async put(request: { url: string }, content: Blob, onBytes: (sent: number) => void) {
    const fault = this.faults.get(this.puts.length);
    this.puts.push(request.url);
    onBytes(Math.floor(content.size / 2));
    if (fault !== undefined) return fault;
    const [, digest = "", number = "", sha256 = ""] = request.url.split("/");
    if (!this.parts.has(digest)) this.parts.set(digest, new Map());
    this.parts.get(digest)?.set(Number(number), sha256);
    return 200;
  }

  async confirm(digests: string[]) {
    const blobs = digests.map((digest): Confirmed => this.confirmOne(digest));
    return { isWhole: [...this.counts.keys()].every((digest) => this.there.has(digest)), blobs };
  }

  private confirmOne(digest: string): Confirmed {
    const parts = this.parts.get(digest) ?? new Map();
    if (this.losesOnce.delete(digest)) parts.delete(0);
    const missing = Array.from({ length: this.counts.get(digest) ?? 1 }, (_, at) => at).filter((at) => !parts.has(at));
    if (missing.length > 0 && !this.there.has(digest)) return { digest, answer: "incomplete", missing, why: "" };
    this.there.add(digest);
    return { digest, answer: "there", missing: [], why: "" };
  }
}

async function contentOf(text: string): Promise<Content> {
  const file = new File([text], `${text}.txt`);
  return { file, path: file.name, sums: await sumsOf(file) };
}

/** A file of so many parts, which takes no memory. */
async function big(parts: number): Promise<Content> {
  const file = { size: parts * PART_SIZE, slice: (from: number, to: number) => sliceOf(to - from) } as unknown as File;
  const sums: Sums = {
    size: file.size,
    parts: Array.from({ length: parts }, (_, at) => `${at}`.padStart(64, "0")),
    digest: "",
  };
  return { file, path: "big.vdb", sums: { ...sums, digest: await digestOfParts(sums.parts) } };
}
const sliceOf = (size: number) =>
  ({ size, slice: () => ({ arrayBuffer: async () => new ArrayBuffer(1) }) }) as unknown as Blob;

function setUp(all: Content[], signal = new AbortController().signal, now?: () => number) {
  const contents = new Map(all.map((content) => [content.sums.digest, content]));
  const store = new Store(new Map(all.map(({ sums }) => [sums.digest, sums.parts.length])));
  const told: Sent[] = [];
  const sender = new Sender(store, contents, [...contents.keys()], (sent) => told.push(sent), signal, noWait, now);
  return { store, sender, told };
}

describe("Sender", () => {
  it("sends every content once and tells how far it is", async () => {
    const all = await Promise.all(["one", "two", "three"].map(contentOf));
    const { store, sender, told } = setUp(all);

    await sender.run();

    expect(store.there.size).toBe(3);
    expect(store.puts).toHaveLength(3);
    expect(told[0]).toEqual({ files: 3, filesDone: 0, bytes: 11, bytesDone: 0, isOffline: false });
    expect(told.at(-1)).toEqual({ files: 3, filesDone: 3, bytes: 11, bytesDone: 11, isOffline: false });
  });

  it("counts what is on its way, and never more than there is", async () => {
    const { sender, told } = setUp([await contentOf("four")]);

    await sender.run();

    expect(told.map(({ bytesDone }) => bytesDone)).toContain(2);
    expect(Math.max(...told.map(({ bytesDone }) => bytesDone))).toBe(4);
  });

  it("sends only the parts that an earlier upload did not leave there", async () => {
    const content = await big(4);
    const { store, sender, told } = setUp([content]);
    store.parts.set(content.sums.digest, new Map([0, 2].map((at) => [at, content.sums.parts[at] ?? ""])));

    await sender.run();

    expect(store.puts.map((url) => url.split("/")[2])).toEqual(["1", "3"]);
    expect(told.at(-1)?.bytesDone).toBe(4 * PART_SIZE);
  });

  it("asks for addresses in batches", async () => {
    const all = await Promise.all(Array.from({ length: 620 }, (_, at) => contentOf(`${at}`)));
    const { store, sender } = setUp(all);

    await sender.run();

    expect(store.signed).toEqual([500, 120]);
    expect(store.there.size).toBe(620);
  });

  it("waits for a network that is away, and sends the part again", async () => {
    const { store, sender, told } = setUp([await contentOf("one")]);
    for (let at = 0; at < 20; at += 1) store.faults.set(at, 0);

    await sender.run();

    expect(store.puts).toHaveLength(21);
    expect(told.some(({ isOffline }) => isOffline)).toBe(true);
    expect(told.at(-1)?.isOffline).toBe(false);
  });

  it("asks for a new address when one has expired", async () => {
    const { store, sender } = setUp([await contentOf("one")]);
    store.faults.set(0, 403);

    await sender.run();

    expect(store.signed).toEqual([1, 1]);
  });

  it("asks for a new address before one expires", async () => {
    let now = 0;
    const { store, sender } = setUp([await contentOf("one")], undefined, () => (now += 14 * 60_000));

    await sender.run();

    expect(store.signed[0]).toBe(1);
    expect(store.signed.length).toBeGreaterThan(1);
  });

  it("gives up on a store that refuses for good, and names the file", async () => {
    const { store, sender } = setUp([await contentOf("one")]);
    store.faults.set(0, 507);

    await expect(sender.run()).rejects.toMatchObject({
      code: "store-refused",
      params: { path: "one.txt", status: 507 },
    });
  });

  it("sends again what the store lost", async () => {
    const content = await big(2);
    const { store, sender, told } = setUp([content]);
    store.losesOnce.add(content.sums.digest);

    await sender.run();

    expect(store.puts.map((url) => url.split("/")[2]).sort()).toEqual(["0", "0", "1"]);
    expect(told.at(-1)).toMatchObject({ filesDone: 1, bytesDone: 2 * PART_SIZE });
  });

  it("gives up when the store keeps nothing", async () => {
    const { store, sender } = setUp([await contentOf("one")]);
    store.confirm = async (digests) => ({
      isWhole: false,
      blobs: digests.map((digest) => ({ digest, answer: "incomplete", missing: [0], why: "Gone." })),
    });

    await expect(sender.run()).rejects.toBeInstanceOf(NotKept);
  });

  it("says which file changed since it was read", async () => {
    const content = await contentOf("one");
    const changed = new File(["two"], "one.txt");
    const { store, sender } = setUp([{ ...content, file: changed }]);
    store.confirm = async (digests) => ({
      isWhole: false,
      blobs: digests.map((digest) => ({ digest, answer: "mismatch", missing: [], why: "Other bytes." })),
    });

    await expect(sender.run()).rejects.toEqual(new FileChanged("one.txt"));
  });

  it("takes a file that cannot be read any more for a changed one, not for a network that is away", async () => {
    const content = await contentOf("one");
    const gone = {
      size: 3,
      slice: () => ({ size: 3, slice: () => ({ arrayBuffer: () => Promise.reject(new Error("gone")) }) }),
    };
    const { store, sender } = setUp([{ ...content, file: gone as unknown as File }]);
    store.faults.set(0, 0);

    await expect(sender.run()).rejects.toBeInstanceOf(FileChanged);
  });

  it("stops when it is paused, and goes on where it was", async () => {
    const content = await big(6);
    const controller = new AbortController();
    const { store, sender } = setUp([content], controller.signal);
    const put = store.put.bind(store);
    store.put = async (request, blob, onBytes) => {
      if (store.puts.length === 3) controller.abort();
      return controller.signal.aborted ? 0 : await put(request, blob, onBytes);
    };

    await expect(sender.run()).rejects.toBeInstanceOf(Paused);
    store.put = put;
    const contents = new Map([[content.sums.digest, content]]);
    await new Sender(store, contents, [content.sums.digest], () => {}, new AbortController().signal, noWait).run();

    expect(store.puts).toHaveLength(6);
    expect(store.there.has(content.sums.digest)).toBe(true);
  });

  it("has nothing to do when the farm lacks nothing", async () => {
    const { store, sender } = setUp([]);

    await sender.run();

    expect(store.puts).toEqual([]);
  });
});

describe("asking", () => {
  const signal = new AbortController().signal;

  it("asks again until somebody answers", async () => {
    let asked = 0;
    const offline: boolean[] = [];

    const answer = await asking(
      async () => {
        asked += 1;
        if (asked < 30) throw new TypeError("Failed to fetch");
        return "yes";
      },
      signal,
      noWait,
      (isOffline) => offline.push(isOffline),
    );

    expect(answer).toBe("yes");
    expect([offline[0], offline.at(-1)]).toEqual([true, false]);
  });

  it.each([
    [422, 1],
    [503, 8],
  ])("of a refusal with status %i asks %i times", async (status, times) => {
    let asked = 0;
    const question = async () => {
      asked += 1;
      throw new Refusal({ status });
    };

    await expect(asking(question, signal, noWait)).rejects.toBeInstanceOf(Refusal);
    expect(asked).toBe(times);
  });

  it("does not hide a mistake in the portal behind waiting", async () => {
    await expect(asking(() => Promise.reject(new RangeError("a mistake")), signal, noWait)).rejects.toBeInstanceOf(
      RangeError,
    );
  });
});
