/** A part of the order's form. */
import { Paper, SimpleGrid, Stack, Title } from "@mantine/core";
import type { ReactNode } from "react";

export function Section({ title, children, isWide = false }: { title: string; children: ReactNode; isWide?: boolean }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Stack gap="sm">
        <Title order={2} size="h5">
          {title}
        </Title>
        {isWide ? (
          children
        ) : (
          <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md" verticalSpacing="sm">
            {children}
          </SimpleGrid>
        )}
      </Stack>
    </Paper>
  );
}
