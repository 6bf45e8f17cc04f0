/** Why an upload stopped, and what to do. */
import { Alert, Button, Stack } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Refusal } from "@/api/refusal";
import { Failure } from "@/app/states";
import { FileUnreadable } from "./reader";
import { FileChanged, NotKept } from "./sender";
import { NotChosen, NotSecure } from "./sending";
import { useNamed } from "./words";

/** Whether the same files may yet be taken; others must be chosen anew. */
const mayPass = (error: unknown) => error instanceof NotKept || error instanceof Refusal;

export function Trouble({ error, again }: { error: unknown; again: () => void }) {
  const { t } = useTranslation("scenes");
  const sentence = useSentenceOfUpload()(error);
  if (sentence === undefined) return <Failure error={error} again={again} />;
  return (
    <Alert color="red" role="alert">
      <Stack gap="sm" align="flex-start">
        {sentence}
        {mayPass(error) && (
          <Button size="xs" variant="default" onClick={again}>
            {t("goOn")}
          </Button>
        )}
      </Stack>
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
