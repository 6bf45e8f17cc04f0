import { Alert, Button, Checkbox, Group, List, Paper, Stack, Table, Text, Title } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { bytes, number } from "@/app/format";
import { entries, merged, type Picked, picked } from "./picked";
import { Gauge, Picker, useUpload } from "./SceneUpload";

interface Props {
  version: Schema["VersionDetail"];
  files: readonly Picked[];
  setFiles: (files: readonly Picked[]) => void;
  go: (id: string | undefined) => void;
  allowMissing: boolean;
  setAllowMissing: (allow: boolean) => void;
}

/** What the inspection found, and what is missing. */
export function Report({ version, files, setFiles, go, allowMissing, setAllowMissing }: Props) {
  const { t } = useTranslation("scenes");
  const { report } = version;
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Group justify="space-between">
          <Title order={2} size="h4">
            {version.entry}
          </Title>
          <Button variant="subtle" color="gray" size="xs" onClick={() => go(undefined)}>
            {t("startOver")}
          </Button>
        </Group>
        <Text size="sm" c="dimmed">
          {t("picked", { count: version.file_count, size: bytes(version.byte_count) })}
        </Text>
        {version.status === "refused" && (
          <Alert color="red" title={t("refused")}>
            {version.refusal}
          </Alert>
        )}
        {report && <Facts report={report} />}
        {report && report.problems.length > 0 && (
          <List size="sm" spacing={4}>
            {report.problems.map((problem) => (
              <List.Item
                key={`${problem.code} ${problem.sentence}`}
                c={problem.severity === "error" ? "red" : undefined}
              >
                {problem.sentence}
              </List.Item>
            ))}
          </List>
        )}
        {report && report.lacking > 0 && (
          <>
            <AddMissing version={version} files={files} setFiles={setFiles} go={go} />
            <Checkbox
              label={t("allowMissing")}
              checked={allowMissing}
              onChange={(event) => setAllowMissing(event.currentTarget.checked)}
            />
          </>
        )}
      </Stack>
    </Paper>
  );
}

function Facts({ report }: { report: Schema["ReportSummary"] }) {
  const { t } = useTranslation("scenes");
  const scene = report.scene as Record<string, unknown>;
  const said = (value: unknown) => (value === undefined || value === null ? "–" : String(value));
  const range = scene.frame_start === undefined ? undefined : `${said(scene.frame_start)}–${said(scene.frame_end)}`;
  const size = (scene.resolution as { width?: number; height?: number } | undefined) ?? {};
  const rows: [string, string][] = [
    [t("engine"), said(scene.engine)],
    [t("frames"), said(scene.frames ?? range)],
    [t("resolution"), size.width ? `${size.width}×${size.height}` : said(scene.resolution)],
    [t("camera"), said(scene.camera)],
    [t("savedBy"), report.saved_by],
    [
      t("dependencies"),
      t("dependenciesFound", {
        found: number(report.dependencies - report.lacking),
        all: number(report.dependencies),
      }),
    ],
  ];
  return (
    <Table withRowBorders={false} verticalSpacing={2} w="auto">
      <Table.Tbody>
        {rows.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th fw={500} c="dimmed">
              {name}
            </Table.Th>
            <Table.Td>{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

type AddProps = Pick<Props, "version" | "files" | "setFiles" | "go">;

/** More files for the same scene: a new version, of which only they travel. */
function AddMissing({ version, files, setFiles, go }: AddProps) {
  const { t } = useTranslation("scenes");
  const [added, setAdded] = useState<readonly Picked[]>([]);
  const all = merged(files, added);
  const scene = api.useQuery("get", "/api/v1/scenes/{scene_id}", { params: { path: { scene_id: version.scene } } });
  const upload = useUpload(all, (id) => {
    setFiles(all);
    go(id);
  });
  const entry = entries(all).includes(version.entry) ? version.entry : entries(all)[0];
  return (
    <Stack gap="xs">
      <Picker
        add={(more) => setAdded(merged(added, picked(more)))}
        title={t("addMissing")}
        hint={t("addMissingHint")}
      />
      <Gauge upload={upload} />
      {added.length > 0 && entry && scene.data && (
        <Button
          w="fit-content"
          loading={upload.isRunning}
          onClick={() => scene.data && upload.start({ project: scene.data.project, name: scene.data.name, entry })}
        >
          {t("upload")}:{" "}
          {t("picked", { count: added.length, size: bytes(added.reduce((sum, { file }) => sum + file.size, 0)) })}
        </Button>
      )}
    </Stack>
  );
}
