/** What an inspection found in a scene: of what it is made, and what to know before it costs anything. */
import { Alert, List, Paper, SegmentedControl, Stack, Table, Text, ThemeIcon, Title } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { number } from "@/app/format";
import { useNamed, useProblem } from "./words";

type Scene = Schema["ReportScene"];

// The list of files says these, each beside its file.
const SAID_BESIDE = new Set(["missing_files", "outside_files"]);

export function Report({ report }: { report: Schema["Report"] }) {
  const { t } = useTranslation("scenes");
  const opens = report.scenes.find(({ active }) => active) ?? report.scenes[0];
  const [name, setName] = useState(opens?.name);
  const shown = report.scenes.find((scene) => scene.name === name) ?? opens;
  const problems = report.problems.filter(({ code }) => !SAID_BESIDE.has(code));
  const isFine = report.problems.every(({ severity }) => severity !== "error");
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Title order={2} size="h4">
          {t("report")}
        </Title>
        {report.scenes.length > 1 && (
          <SegmentedControl
            size="xs"
            w="fit-content"
            aria-label={t("scene")}
            data={report.scenes.map((scene) => scene.name)}
            value={name ?? ""}
            onChange={setName}
          />
        )}
        {shown && <Facts scene={shown} savedBy={report.saved_by} />}
        <Problems problems={problems} />
        {isFine && (
          <Alert color="teal" variant="light" p="xs" icon={<IconCircleCheck aria-hidden />}>
            {t("whole")}
          </Alert>
        )}
      </Stack>
    </Paper>
  );
}

function Problems({ problems }: { problems: Schema["ReportProblem"][] }) {
  const sentence = useProblem();
  if (problems.length === 0) return null;
  return (
    <List size="sm" spacing="xs" listStyleType="none">
      {problems.map((problem) => {
        const isError = problem.severity === "error";
        return (
          <List.Item
            key={`${problem.code} ${problem.sentence}`}
            icon={
              <ThemeIcon variant="transparent" color={isError ? "red" : "yellow"} size="sm">
                {isError ? <IconCircleX aria-hidden /> : <IconAlertTriangle aria-hidden />}
              </ThemeIcon>
            }
          >
            {sentence(problem)}
          </List.Item>
        );
      })}
    </List>
  );
}

function Facts({ scene, savedBy }: { scene: Scene; savedBy: string | null }) {
  const { t } = useTranslation("scenes");
  const named = useNamed();
  const { frames, fps, resolution, output, samples, engine } = scene;
  const range = `${frames.start}–${frames.end}${frames.step > 1 ? `:${frames.step}` : ""}`;
  const rate = number(Math.round(((fps[0] ?? 0) / (fps[1] ?? 1)) * 100) / 100);
  const bound = [...new Set(scene.markers.flatMap(({ camera }) => camera ?? []))];
  const rows: [string, string][] = [
    [t("frames"), t("framesAt", { range, rate })],
    [
      t("picture"),
      t("pictureAs", {
        size: `${resolution.width}×${resolution.height}`,
        format: output.format,
        depth: output.color_depth,
      }),
    ],
    [t("engine"), samples === null ? engine : t("engineSamples", { engine, count: samples })],
    [t("camera"), named(bound.length > 0 ? bound : [scene.camera ?? t("noCamera")])],
    [t("layers"), named(scene.view_layers.filter(({ on }) => on).map((layer) => layer.name)) || "–"],
    ...(savedBy ? [[t("savedBy"), t("blender", { version: savedBy })] as [string, string]] : []),
  ];
  return (
    <Table withRowBorders={false} verticalSpacing={2} horizontalSpacing={0} layout="fixed">
      <Table.Tbody>
        {rows.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th fw={400} w={130} style={{ verticalAlign: "top" }}>
              <Text size="sm" c="dimmed">
                {name}
              </Text>
            </Table.Th>
            <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
