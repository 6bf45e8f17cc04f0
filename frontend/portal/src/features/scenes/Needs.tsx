/** Every file that a scene needs, found or not; and those that are not, added without starting over. */
import { Badge, Box, Checkbox, Group, Paper, SegmentedControl, Stack, Text, Title } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { bytes, number } from "@/app/format";
import { AddFiles } from "./AddFiles";
import { type Dependency, isAbove, isLacking } from "./placing";
import { useLookup, useNamed } from "./words";

const COLOUR: Record<Schema["DependencyStateEnum"], string> = { found: "teal", missing: "red", outside: "orange" };
const ROW = 54;
const MOST_ROWS = 8;

interface Props {
  version: Schema["VersionDetail"];
  dependencies: Dependency[];
  /** Something that frames need is not there: a file, or what a library should hold. */
  isIncomplete: boolean;
  allowMissing: boolean;
  setAllowMissing: (allow: boolean) => void;
}

export function Needs({ version, dependencies, isIncomplete, allowMissing, setAllowMissing }: Props) {
  const { t } = useTranslation("scenes");
  const files = dependencies.filter(({ packed }) => !packed);
  const lacking = files.filter(isLacking);
  const packed = dependencies.length - files.length;
  const [isAll, setIsAll] = useState(false);
  const said =
    files.length === 0
      ? t("needsNone")
      : lacking.length === 0
        ? t("needsAll", { count: files.length })
        : t("needsSome", { lacking: number(lacking.length), all: number(files.length) });
  const hasBoth = lacking.length > 0 && lacking.length < files.length;
  return (
    <Paper withBorder p="md">
      <Stack gap="sm">
        <Group justify="space-between">
          <div>
            <Title order={2} size="h4">
              {t("needs")}
            </Title>
            <Text size="sm" c={lacking.length > 0 ? undefined : "dimmed"} fw={lacking.length > 0 ? 500 : 400}>
              {said} {packed > 0 && t("packed", { count: packed })}
            </Text>
          </div>
          {hasBoth && (
            <SegmentedControl
              size="xs"
              aria-label={t("needs")}
              data={[
                { value: "lacking", label: t("lackingOnly") },
                { value: "all", label: t("all") },
              ]}
              value={isAll ? "all" : "lacking"}
              onChange={(value) => setIsAll(value === "all")}
            />
          )}
        </Group>
        <Files files={hasBoth && !isAll ? lacking : [...lacking, ...files.filter((file) => !isLacking(file))]} />
        {lacking.length > 0 && <AddFiles version={version} dependencies={dependencies} />}
        {isIncomplete && (
          <Checkbox
            label={t("allowMissing")}
            description={t("allowMissingHint")}
            checked={allowMissing}
            onChange={({ currentTarget }) => setAllowMissing(currentTarget.checked)}
          />
        )}
      </Stack>
    </Paper>
  );
}

/** A list of any length: only the rows that are seen are there. */
function Files({ files }: { files: Dependency[] }) {
  const { t } = useTranslation("scenes");
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: files.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 6,
    initialRect: { width: 600, height: ROW * MOST_ROWS },
  });
  if (files.length === 0) return null;
  return (
    <Box
      ref={box}
      mah={ROW * MOST_ROWS}
      style={{ overflowY: "auto" }}
      role="list"
      aria-label={t("needs")}
      {...(files.length > MOST_ROWS ? { tabIndex: 0 } : {})}
    >
      <Box h={rows.getTotalSize()} pos="relative">
        {rows.getVirtualItems().map(({ index, start, key }) => {
          const file = files[index];
          return (
            file && (
              <Box
                key={key}
                ref={rows.measureElement}
                data-index={index}
                role="listitem"
                aria-setsize={files.length}
                aria-posinset={index + 1}
                pos="absolute"
                top={0}
                left={0}
                w="100%"
                style={{ transform: `translateY(${start}px)` }}
              >
                <File file={file} />
              </Box>
            )
          );
        })}
      </Box>
    </Box>
  );
}

function File({ file }: { file: Dependency }) {
  const { t } = useTranslation("scenes");
  const lookup = useLookup("scenes");
  const named = useNamed();
  const kind = lookup(`kinds.${file.kind}`) ?? file.kind;
  const more = [
    kind,
    file.size > 0 ? bytes(file.size) : "",
    file.files > 1 ? t("ofFiles", { count: file.files }) : "",
    file.missing_numbers ? t("lacksNumbers", { numbers: file.missing_numbers }) : "",
    file.users.length > 0 ? t("usedBy", { names: named(file.users) }) : "",
    file.needed ? "" : t("notNeeded"),
  ].filter(Boolean);
  return (
    <Group wrap="nowrap" gap="sm" py={6} align="flex-start">
      <Badge color={COLOUR[file.state]} variant="light" tt="none" flex="none" mt={2}>
        {t(`states.${file.state}`)}
      </Badge>
      <Box miw={0}>
        <Text size="sm" ff="monospace" truncate title={file.path}>
          {file.path}
        </Text>
        <Text size="xs" c="dimmed">
          {isAbove(file) && isLacking(file) ? t("above") : more.join(" · ")}
        </Text>
      </Box>
    </Group>
  );
}
