import { Button, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { signOut } from "@/app/PersonMenu";
import { Door } from "./Door";

/** Somebody is signed in and belongs nowhere yet. */
export function NoStudio() {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  return (
    <Door title={t("noStudio")}>
      <Text size="sm">{t("noStudioText")}</Text>
      <Button onClick={() => location.reload()}>{t("lookAgain")}</Button>
      <Button variant="default" onClick={() => void signOut()}>
        {core("signOut")}
      </Button>
    </Door>
  );
}
