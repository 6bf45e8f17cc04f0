import { Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { duration, money, number } from "@/app/format";
import { Empty, Failure, Waiting } from "@/app/states";

/** What each attempt cost, and what was credited. */
export function Cost({ job }: { job: Schema["Job"] }) {
  const { t } = useTranslation("jobs");
  const statement = api.useQuery(
    "get",
    "/api/v1/statement",
    { params: { query: { cost_object: job.cost_object, limit: 200 } } },
    { refetchInterval: job.status === "active" ? 5_000 : 15_000 },
  );
  if (statement.error) return <Failure error={statement.error} again={() => void statement.refetch()} />;
  if (!statement.data) return <Waiting />;
  const { results, totals } = statement.data;
  if (results.length === 0) return <Empty title={t("cost")}>{t("noCost")}</Empty>;
  const shown = ({ micro, currency }: Schema["Money"]) => money(micro, currency);
  return (
    <Stack>
      <Text>
        {t("costTotal", {
          charged: shown(totals.charged),
          credit: shown(totals.credit),
          count: totals.count,
        })}
      </Text>
      <Table.ScrollContainer minWidth={520}>
        <Table verticalSpacing={4} maw={860}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("costFrame")}</Table.Th>
              <Table.Th>{t("outcome")}</Table.Th>
              <Table.Th ta="right">{t("costTime")}</Table.Th>
              <Table.Th ta="right">{t("costCredit")}</Table.Th>
              <Table.Th ta="right">{t("costCharged")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {results.map((line) => (
              <Table.Tr key={line.attempt}>
                <Table.Td>{line.label}</Table.Td>
                <Table.Td>{line.outcome}</Table.Td>
                <Table.Td ta="right">{duration(line.billable_ms / 1000)}</Table.Td>
                <Table.Td ta="right">{line.credit.micro ? shown(line.credit) : ""}</Table.Td>
                <Table.Td ta="right">{shown(line.charged)}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {results.length < totals.count && (
        <Text size="sm" c="dimmed">
          {t("doneOf", { done: number(results.length), all: number(totals.count) })}
        </Text>
      )}
    </Stack>
  );
}
