/** The order as it is being filled in: kept in this tab for each scene, so that a reload or a new version loses nothing. */
import { useCallback, useState } from "react";
import { blankDraft, type Draft } from "./order";

const keyOf = (scene: string) => `farmhand.order.${scene}`;

function kept(scene: string, name: string): Draft {
  const blank = blankDraft(name);
  try {
    return { ...blank, ...JSON.parse(sessionStorage.getItem(keyOf(scene)) ?? "{}") };
  } catch {
    return blank;
  }
}

export type Change = (change: Partial<Draft>) => void;

export function useDraft(scene: string, name: string): [Draft, Change] {
  const [draft, setDraft] = useState(() => kept(scene, name));
  const change = useCallback<Change>(
    (part) =>
      setDraft((before) => {
        const next = { ...before, ...part };
        sessionStorage.setItem(keyOf(scene), JSON.stringify(next));
        return next;
      }),
    [scene],
  );
  return [draft, change];
}

export const forgetDraft = (scene: string) => sessionStorage.removeItem(keyOf(scene));
