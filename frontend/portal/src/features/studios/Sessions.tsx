import { Button, Table, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { account, type SessionRow } from "@/api/accounts";
import { Time } from "@/app/format";
import { Failure, useTell, Waiting } from "@/app/states";

const at = (seconds: number) => new Date(seconds * 1000).toISOString();

/** Where one is signed in. */
export function Sessions() {
  const { t } = useTranslation("studios");
  const known = useQueryClient();
  const sessions = useQuery({ queryKey: ["sessions"], queryFn: () => account<SessionRow[]>("GET", "auth/sessions") });
  const end = useMutation({
    mutationFn: (id: number) => account("DELETE", "auth/sessions", { sessions: [id] }),
    onSuccess: () => void known.invalidateQueries({ queryKey: ["sessions"] }),
    onError: useTell(),
  });
  if (sessions.error) return <Failure error={sessions.error} again={() => void sessions.refetch()} />;
  if (!sessions.data) return <Waiting />;
  return (
    <Table maw={860} verticalSpacing="xs">
      <Table.Tbody>
        {sessions.data.map((session) => (
          <Table.Tr key={session.id}>
            <Table.Td>
              <Text size="sm">{session.user_agent}</Text>
              <Text size="xs" c="dimmed">
                {session.ip}
              </Text>
            </Table.Td>
            <Table.Td>
              {t("started")} <Time at={at(session.created_at)} />
            </Table.Td>
            <Table.Td ta="right">
              {session.is_current ? (
                t("thisOne")
              ) : (
                <Button size="compact-xs" variant="subtle" color="red" onClick={() => end.mutate(session.id)}>
                  {t("endSession")}
                </Button>
              )}
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
