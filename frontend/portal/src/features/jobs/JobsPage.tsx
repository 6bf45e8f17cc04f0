import { Button, Stack, Text } from "@mantine/core";
import { Link, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { Head } from "@/app/Head";
import { useMay } from "@/app/me";
import { Empty, Failure, Waiting } from "@/app/states";
import { Bulk } from "./list/Bulk";
import { ClearAll, Filters } from "./list/Filters";
import { type Chosen, Rows } from "./list/Rows";
import { useJobs } from "./list/useJobs";
import { isNarrowed } from "./search";

/** The studio's jobs: what is under way, what is done, what wants attention. */
export function JobsPage() {
  const { t } = useTranslation("jobs");
  const { t: core } = useTranslation();
  const search = useSearch({ from: "/inside/jobs" });
  const may = useMay("jobs:write");
  const { jobs, rows } = useJobs(search);
  const [chosen, choose] = useState<Chosen>({});
  const chosenJobs = useMemo(() => rows.map(({ job }) => job).filter(({ id }) => chosen[id]), [rows, chosen]);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = jobs;
  const more = useCallback(() => {
    if (!isFetchingNextPage) void fetchNextPage();
  }, [isFetchingNextPage, fetchNextPage]);
  return (
    <Stack>
      <Head title={core("jobs")}>
        {may && (
          <Button component={Link} to="/new">
            {core("newJob")}
          </Button>
        )}
      </Head>
      <Filters search={search} />
      {jobs.error && <Failure error={jobs.error} again={() => void jobs.refetch()} />}
      {jobs.isPending && <Waiting />}
      {jobs.data && rows.length === 0 && <NoJobs isNarrowed={isNarrowed(search)} />}
      {rows.length > 0 && <Rows rows={rows} chosen={chosen} choose={choose} more={hasNextPage ? more : undefined} />}
      {isFetchingNextPage && <Text c="dimmed">{t("list.loadingMore", { count: rows.length })}</Text>}
      <Bulk jobs={chosenJobs} clear={() => choose({})} />
    </Stack>
  );
}

function NoJobs({ isNarrowed }: { isNarrowed: boolean }) {
  const { t } = useTranslation("jobs");
  const search = useSearch({ from: "/inside/jobs" });
  if (isNarrowed)
    return (
      <Empty title={t("noneMatch")} action={<ClearAll search={search} />}>
        {t("noneMatchText")}
      </Empty>
    );
  return (
    <Empty
      title={t("none")}
      action={
        <Button component={Link} to="/new">
          {t("first")}
        </Button>
      }
    >
      {t("noneText")}
    </Empty>
  );
}
