/** The rows of the job list: the jobs page by page, and for each page what is left of them and what they cost so far. */
import { keepPreviousData, useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { answered, farm, type Schema } from "@/api/client";
import { useMay } from "@/app/me";
import { PAGED } from "@/app/queries";
import { type JobsSearch, toQuery } from "../search";

export type Job = Schema["Job"];

export interface Row {
  job: Job;
  forecast: Schema["Forecast"] | undefined;
  cost: Schema["Cost"] | undefined;
}

const PAGE = 100;
const POLL_MS = 4_000;

export function useJobs(search: JobsSearch) {
  const jobs = useInfiniteQuery({
    queryKey: ["jobs", search],
    queryFn: ({ pageParam }) => readJobs(search, pageParam),
    ...PAGED,
    refetchInterval: POLL_MS,
  });
  const pages = jobs.data?.pages;
  const asked = (pages ?? []).map((page) => page.results);
  const forecasts = useQueries({
    queries: asked.map((page) => forecastsOf(page.filter(({ status }) => status === "active").map(({ id }) => id))),
    combine: (answers) => new Map(answers.flatMap(({ data }) => data ?? []).map((each) => [each.job, each])),
  });
  const mayReadMoney = useMay("billing:read");
  const costs = useQueries({
    queries: mayReadMoney ? asked.map((page) => costsOf(page.map((job) => job.cost_object))) : [],
    combine: (answers) => new Map(answers.flatMap(({ data }) => data ?? []).map((each) => [each.cost_object, each])),
  });
  const rows = useMemo(
    () =>
      (pages ?? [])
        .flatMap((page) => page.results)
        .map((job): Row => ({ job, forecast: forecasts.get(job.id), cost: costs.get(job.cost_object) })),
    [pages, forecasts, costs],
  );
  return { jobs, rows };
}

async function readJobs(search: JobsSearch, cursor: string) {
  const query = { limit: PAGE, ...toQuery(search), ...(cursor ? { cursor } : {}) };
  return answered(await farm.GET("/api/v1/jobs", { params: { query } }));
}

const forecastsOf = (ids: string[]) => ({
  queryKey: ["forecasts", ids],
  queryFn: async () =>
    answered(await farm.GET("/api/v1/forecasts", { params: { query: { jobs: ids.join(",") } } })).results,
  enabled: ids.length > 0,
  placeholderData: keepPreviousData,
  refetchInterval: POLL_MS,
});

const costsOf = (ids: string[]) => ({
  queryKey: ["costs", ids],
  queryFn: async () =>
    answered(await farm.GET("/api/v1/costs", { params: { query: { cost_objects: ids.join(",") } } })).results,
  enabled: ids.length > 0,
  placeholderData: keepPreviousData,
  refetchInterval: POLL_MS,
});
