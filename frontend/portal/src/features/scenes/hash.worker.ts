/** Hashes files beside the page, so that it stays quick. */
import { sumsOf } from "./digest";

self.onmessage = async ({ data }: MessageEvent<{ id: number; file: File }>) => {
  try {
    const sums = await sumsOf(data.file, (bytes) => self.postMessage({ id: data.id, bytes }));
    self.postMessage({ id: data.id, sums });
  } catch (error) {
    self.postMessage({ id: data.id, error: String(error) });
  }
};
