/** Where files are dropped or chosen: single ones, or a whole folder. */
import { Button, Group, Stack, Text } from "@mantine/core";
import { Dropzone } from "@mantine/dropzone";
import "@mantine/dropzone/styles.css";
import { IconFolderPlus } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { filesOfEvent } from "./walk";

interface Props {
  take: (files: File[]) => void;
  title: string;
  hint: string;
  /** The only thing on the page, or one among others. */
  isLarge?: boolean;
}

export function Picker({ take, title, hint, isLarge = false }: Props) {
  const { t } = useTranslation("scenes");
  const folder = useRef<HTMLInputElement>(null);
  const open = useRef<() => void>(null);
  const [found, setFound] = useState(0);
  return (
    <Dropzone
      onDrop={take}
      openRef={open}
      activateOnClick={false}
      activateOnKeyboard={false}
      enablePointerEvents
      getFilesFromEvent={(event) => filesOfEvent(event, setFound)}
      useFsAccessApi={false}
      p={isLarge ? "xl" : "md"}
      py={isLarge ? 56 : "md"}
      inputProps={{ "aria-label": t("chooseFiles") }}
    >
      <Stack align="center" gap={isLarge ? "md" : "xs"}>
        {isLarge && <IconFolderPlus size={40} stroke={1.2} aria-hidden />}
        <Text fw={500} ta="center">
          {title}
        </Text>
        <Text size="sm" c="dimmed" ta="center" maw={560} role="status">
          {found > 0 ? t("looking", { count: found }) : hint}
        </Text>
        <Group justify="center">
          <Button variant="default" size={isLarge ? "sm" : "xs"} onClick={() => folder.current?.click()}>
            {t("chooseFolder")}
          </Button>
          <Button variant="default" size={isLarge ? "sm" : "xs"} onClick={() => open.current?.()}>
            {t("chooseFiles")}
          </Button>
        </Group>
        <input
          ref={folder}
          type="file"
          hidden
          multiple
          aria-label={t("chooseFolder")}
          data-testid="folder"
          {...{ webkitdirectory: "" }}
          onChange={({ currentTarget }) => {
            take([...(currentTarget.files ?? [])]);
            currentTarget.value = ""; // so that the same folder may be chosen again
          }}
        />
      </Stack>
    </Dropzone>
  );
}
