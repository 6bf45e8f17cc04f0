/** A page's name, in the tab and above the page, with what can be done on it. */
import { Group, Title } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import type { ReactNode } from "react";

export function Head({ title, children }: { title: string; children?: ReactNode }) {
  useDocumentTitle(`${title} · Farmhand`);
  return (
    <Group justify="space-between" mih={36}>
      <Title order={1} size="h3">
        {title}
      </Title>
      {children && <Group gap="xs">{children}</Group>}
    </Group>
  );
}
