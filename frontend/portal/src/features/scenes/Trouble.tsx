/** Why an upload stopped, and what to do. */
import { Alert } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Refusal } from "@/api/refusal";
import { Failure } from "@/app/states";
import { FileUnreadable } from "./reader";
import { FileChanged, NotKept } from "./sender";
import { NotChosen, NotSecure } from "./sending";
import { useNamed } from "./words";

export function Trouble({ error, again }: { error: unknown; again: () => void }) {
  const sentence = useSentenceOfUpload()(error);
  if (sentence === undefined) return <Failure error={error} again={again} />;
  return (
    <Alert color="red" role="alert">
      {sentence}
    </Alert>
  );
}

/** The sentence for what only uploads refuse; undefined for what anything else may. */
function useSentenceOfUpload(): (error: unknown) => string | undefined {
  const { t } = useTranslation("scenes");
  const named = useNamed();
  return (error) => {
    if (error instanceof NotSecure) return t("errors.notSecure");
    if (error instanceof FileUnreadable) return t("errors.unreadable", { path: error.path });
    if (error instanceof FileChanged) return t("errors.changed", { path: error.path });
    if (error instanceof NotKept) return t("errors.notKept", { count: error.count, path: error.path });
    if (error instanceof NotChosen)
      return t("errors.notChosen", { count: error.paths.length, names: named(error.paths) });
    if (error instanceof Refusal && error.code === "store-refused")
      return t("errors.storeRefused", { path: String(error.params.path), status: Number(error.params.status) });
    return undefined;
  };
}
