/** Every decision for a fleet, newest first, with its reason and its numbers. */
import { Badge, Group, Select, Stack, Table, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Schema } from "@/api/client";
import { number, Time } from "@/app/format";
import { Listing } from "./Listing";
import { type Kind, useDecisions, useFleetNames } from "./reading";

const COLOURS: Record<Kind, string> = { launch: "teal", refused: "orange", drain: "yellow", end: "gray", alarm: "red" };
const KINDS = Object.keys(COLOURS) as Kind[];

export function Decisions() {
  const { t } = useTranslation("fleet");
  const [kind, chooseKind] = useState<Kind>();
  const [fleet, chooseFleet] = useState<string>();
  const decisions = useDecisions({ kind, fleet });
  const names = useFleetNames();
  return (
    <Stack>
      <Group>
        <Select
          aria-label={t("kind")}
          placeholder={t("allKinds")}
          clearable
          data={KINDS.map((value) => ({ value, label: t(`kinds.${value}`) }))}
          value={kind ?? null}
          onChange={(value) => chooseKind(KINDS.find((each) => each === value))}
        />
        <Select
          aria-label={t("fleet")}
          placeholder={t("allFleets")}
          clearable
          data={[...names].map(([value, label]) => ({ value, label }))}
          value={fleet ?? null}
          onChange={(value) => chooseFleet(value ?? undefined)}
        />
      </Group>
      <Listing
        answer={decisions}
        columns={(["when", "fleet", "kind", "what"] as const).map((name) => t(name))}
        minWidth={560}
        empty={{ title: t("noDecisions"), text: t("noDecisionsText") }}
      >
        {(decision) => (
          <Table.Tr key={decision.id}>
            <Table.Td>
              <Time at={decision.at} seconds />
            </Table.Td>
            <Table.Td>{names.get(decision.fleet) ?? ""}</Table.Td>
            <Table.Td>
              <Badge color={COLOURS[decision.kind]} variant="dot" tt="none" miw="max-content">
                {t(`kinds.${decision.kind}`)}
              </Badge>
            </Table.Td>
            <Table.Td>
              <Text size="sm">{t(`sentences.${decision.kind}`, told(decision))}</Text>
              <Text size="xs" c="dimmed">
                {numbersOf(decision.params)}
              </Text>
            </Table.Td>
          </Table.Tr>
        )}
      </Listing>
    </Stack>
  );
}

const UNKNOWN = { reason: "?", count: "?", asked: "?", wished: "?", machines: "?", sentence: "" };

/** What a sentence names; what an earlier version of the farm did not note is a question mark. */
function told({ reason, params }: Schema["Decision"]): typeof UNKNOWN {
  return { ...UNKNOWN, ...(typeof params === "object" ? params : {}), reason };
}

/** What was counted when it was decided, in the farm's own words. */
function numbersOf(params: unknown): string {
  if (typeof params !== "object" || params === null) return "";
  return Object.entries(params)
    .filter(([, value]) => typeof value === "number")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value)}`)
    .join(" · ");
}
