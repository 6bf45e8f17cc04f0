/** The grid of a job, read once and then kept by its changes. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { answered, farm, type Schema } from "@/api/client";
import { applyChanges, type JobGrid, readGrid } from "./grid";

const EVERY_MS = 1_000;
const ENDED_EVERY_MS = 10_000; // what ended may be rendered again, by somebody else

export interface Live {
  grid: JobGrid | undefined;
  job: Schema["Job"] | undefined;
  version: number; // goes up with each change of the grid
  error: unknown;
  again: () => void;
}

export function useGrid(jobId: string): Live {
  const known = useQueryClient();
  const held = useRef<JobGrid | undefined>(undefined);
  const [version, setVersion] = useState(0);
  const first = useQuery({
    queryKey: ["grid", jobId],
    queryFn: async () =>
      readGrid(answered(await farm.GET("/api/v1/jobs/{job_id}/grid", { params: { path: { job_id: jobId } } }))),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  useEffect(() => {
    held.current = first.data;
    setVersion((before) => before + 1);
  }, [first.data]);
  const changes = useQuery({
    queryKey: ["changes", jobId],
    enabled: first.data !== undefined,
    gcTime: 0,
    queryFn: async () => {
      const grid = held.current ?? first.data;
      const params = { path: { job_id: jobId }, query: { since: grid?.revision ?? 0 } };
      const data = answered(await farm.GET("/api/v1/jobs/{job_id}/changes", { params }));
      if (data.is_reload) await known.invalidateQueries({ queryKey: ["grid", jobId] });
      else if (grid && applyChanges(grid, data) > 0) setVersion((before) => before + 1);
      return data.job;
    },
    refetchInterval: (query) => (query.state.data?.status === "active" ? EVERY_MS : ENDED_EVERY_MS),
  });
  return {
    grid: first.data,
    job: changes.data,
    version,
    error: first.error ?? (changes.data ? null : changes.error),
    again: () => void known.invalidateQueries({ queryKey: ["grid", jobId] }),
  };
}
