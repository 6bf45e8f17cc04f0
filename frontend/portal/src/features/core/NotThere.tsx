import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { Empty } from "@/app/states";

/** An address that is no view. */
export function NotThere() {
  const { t } = useTranslation();
  return (
    <Empty
      title={t("notThere")}
      action={
        <Button component={Link} to="/jobs">
          {t("toJobs")}
        </Button>
      }
    >
      {t("notThereText")}
    </Empty>
  );
}
