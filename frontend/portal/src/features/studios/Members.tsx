import { Button, Group, Paper, Select, Stack, Table, Text, TextInput, Title } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, once, type Schema } from "@/api/client";
import { Time } from "@/app/format";
import { useMay } from "@/app/me";
import { confirm, Failure, useTell, useTellBeside, Waiting } from "@/app/states";

type Role = Schema["Member"]["role"];
const ROLES: Record<Role, true> = { owner: true, producer: true, artist: true, viewer: true };

/** Who belongs to the studio, in which role. */
export function Members() {
  const { t } = useTranslation("studios");
  const may = useMay("studio:write");
  const members = api.useQuery("get", "/api/v1/members", { params: { query: { limit: 200 } } });
  if (members.error) return <Failure error={members.error} again={() => void members.refetch()} />;
  if (!members.data) return <Waiting />;
  return (
    <Stack maw={860}>
      {may && <Invite />}
      <Table.ScrollContainer minWidth={560}>
        <Table verticalSpacing="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("email")}</Table.Th>
              <Table.Th>{t("role")}</Table.Th>
              <Table.Th>{t("lastSeen")}</Table.Th>
              <Table.Th />
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {members.data.results.map((member) => (
              <Row key={member.id} member={member} may={may} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}

function Row({ member, may }: { member: Schema["Member"]; may: boolean }) {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  const known = useQueryClient();
  const tell = useTell();
  const settled = { onSuccess: () => void known.invalidateQueries(), onError: tell };
  const change = api.useMutation("patch", "/api/v1/members/{member_id}", settled);
  const remove = api.useMutation("delete", "/api/v1/members/{member_id}", settled);
  const params = { path: { member_id: member.id } };
  return (
    <Table.Tr>
      <Table.Td>
        <Text size="sm">{member.name || member.email}</Text>
        {member.name && (
          <Text size="xs" c="dimmed">
            {member.email}
          </Text>
        )}
      </Table.Td>
      <Table.Td>
        {may ? (
          <Select
            size="xs"
            w={130}
            aria-label={`${t("role")}: ${member.email}`}
            data={(Object.keys(ROLES) as Role[]).map((role) => ({ value: role, label: t(`roles.${role}`) }))}
            value={member.role}
            allowDeselect={false}
            onChange={(role) => role && change.mutate({ params, body: { role: role as Role } })}
          />
        ) : (
          t(`roles.${member.role}`)
        )}
      </Table.Td>
      <Table.Td>{member.last_seen_at ? <Time at={member.last_seen_at} /> : t("never")}</Table.Td>
      <Table.Td ta="right">
        {may && (
          <Button
            size="compact-xs"
            variant="subtle"
            color="red"
            onClick={() =>
              confirm(
                {
                  title: t("removeTitle", { email: member.email }),
                  children: t("removeText"),
                  act: t("remove"),
                  cancel: core("cancel"),
                },
                () => remove.mutate({ params }),
              )
            }
          >
            {t("remove")}
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

function Invite() {
  const { t } = useTranslation("studios");
  const known = useQueryClient();
  const form = useForm<{ email: string; role: Role }>({ initialValues: { email: "", role: "artist" } });
  const invite = api.useMutation("post", "/api/v1/members/invitations", {
    onSuccess: (invitation) => {
      notifications.show({ message: t("invited", { email: invitation.email }) });
      form.reset();
      void known.invalidateQueries();
    },
    onError: useTellBeside(form.setErrors),
  });
  return (
    <Paper withBorder p="md">
      <form onSubmit={form.onSubmit((body) => invite.mutate({ body, params: { header: once() } }))}>
        <Title order={2} size="h5" mb="xs">
          {t("inviteTitle")}
        </Title>
        <Group align="flex-end">
          <TextInput label={t("email")} type="email" required flex={1} miw={200} {...form.getInputProps("email")} />
          <Select
            label={t("role")}
            data={(Object.keys(ROLES) as Role[]).map((role) => ({
              value: role,
              label: `${t(`roles.${role}`)}: ${t(`rolesHint.${role}`)}`,
            }))}
            allowDeselect={false}
            miw={260}
            {...form.getInputProps("role")}
          />
          <Button type="submit" loading={invite.isPending}>
            {t("invite")}
          </Button>
        </Group>
      </form>
    </Paper>
  );
}
