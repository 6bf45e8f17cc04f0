import { Anchor, Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { bytes, number } from "@/app/format";
import { Empty, Failure, Waiting } from "@/app/states";

/** The job's movie, from its first frames on. */
export function Movie({ jobId }: { jobId: string }) {
  const { t } = useTranslation("jobs");
  const movie = api.useQuery(
    "get",
    "/api/v1/jobs/{job_id}/movie",
    { params: { path: { job_id: jobId } } },
    { refetchInterval: (query) => (query.state.data?.complete ? false : 5_000) },
  );
  if (movie.error) return <Failure error={movie.error} again={() => void movie.refetch()} />;
  if (!movie.data) return <Waiting />;
  const { url, version, shown, frames, trouble, size } = movie.data;
  if (!url) return <Empty title={t("movie")}>{trouble || t("noMovie")}</Empty>;
  return (
    <Stack gap={6}>
      <div className="picture-ground">
        <video key={version} src={url} controls loop muted playsInline style={{ width: "100%", maxHeight: "70vh" }} />
      </div>
      <Text size="sm" c="dimmed">
        {t("movieShown", { shown: number(shown), frames: number(frames) })}{" "}
        <Anchor href={url} download>
          {bytes(size)}
        </Anchor>
      </Text>
    </Stack>
  );
}
