/** A table that is read on and on, with words for waiting, trouble and nothing there. */
import { Button, Table } from "@mantine/core";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Empty, Failure, Waiting } from "@/app/states";

interface Props<Row> {
  answer: UseInfiniteQueryResult<InfiniteData<{ results: Row[] }>>;
  columns: string[];
  minWidth: number;
  empty: { title: string; text: string };
  children: (row: Row) => ReactNode;
}

export function Listing<Row>({ answer, columns, minWidth, empty, children }: Props<Row>) {
  const { t } = useTranslation("fleet");
  const rows = answer.data?.pages.flatMap(({ results }) => results);
  return (
    <>
      {answer.error && <Failure error={answer.error} again={() => void answer.refetch()} />}
      {answer.isPending && <Waiting />}
      {rows?.length === 0 && <Empty title={empty.title}>{empty.text}</Empty>}
      {rows && rows.length > 0 && (
        <Table.ScrollContainer minWidth={minWidth} type="native" tabIndex={0}>
          <Table verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                {columns.map((name) => (
                  <Table.Th key={name} scope="col">
                    {name}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>{rows.map(children)}</Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
      {answer.hasNextPage && (
        <Button variant="default" loading={answer.isFetchingNextPage} onClick={() => void answer.fetchNextPage()}>
          {t("more")}
        </Button>
      )}
    </>
  );
}
