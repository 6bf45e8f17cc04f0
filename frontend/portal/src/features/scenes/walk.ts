/** Reads dropped folders, however deep, and counts as it goes. */
import { isLitter } from "./picked";

type Given = File & { path?: string };

/** The entries of a drop; they must be asked for before anything is waited for. */
function entriesOf(items: DataTransferItemList): FileSystemEntry[] {
  return [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
}

/** A browser gives a folder's entries some at a time; none: that was all. */
async function* listed(folder: FileSystemDirectoryEntry): AsyncGenerator<FileSystemEntry> {
  const reader = folder.createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    yield* some;
  }
}

async function* walked(entries: Iterable<FileSystemEntry>): AsyncGenerator<Given> {
  const waiting = [...entries];
  for (let entry = waiting.shift(); entry; entry = waiting.shift()) {
    if (isLitter(entry.name)) continue;
    if (entry.isFile) yield await fileOf(entry as FileSystemFileEntry);
    else for await (const inner of listed(entry as FileSystemDirectoryEntry)) waiting.push(inner);
  }
}

/** The file of an entry, with its path below the dropped folder. */
async function fileOf(entry: FileSystemFileEntry): Promise<Given> {
  const file = await new Promise<File>((resolve, reject) => entry.file(resolve, reject));
  return Object.defineProperty(file, "path", { value: entry.fullPath, enumerable: true });
}

/**
 * Give the files of what was dropped or chosen; `tell` hears how many there are so far.
 *
 * While something is only dragged over the page a browser does not say what it holds.
 */
export async function filesOfEvent(
  event: unknown,
  tell: (count: number) => void,
): Promise<(File | DataTransferItem)[]> {
  const { dataTransfer, target, type } = event as { dataTransfer?: DataTransfer; target?: unknown; type?: string };
  if (!dataTransfer) return target instanceof HTMLInputElement ? [...(target.files ?? [])] : [];
  if (type !== "drop") return [...dataTransfer.items];
  const entries = entriesOf(dataTransfer.items);
  if (entries.length === 0) return [...dataTransfer.files];
  const files: File[] = [];
  for await (const file of walked(entries)) {
    files.push(file);
    if (files.length % 50 === 0) tell(files.length);
  }
  tell(0);
  return files;
}
