import {
  Alert,
  Button,
  Code,
  CopyButton,
  Group,
  MultiSelect,
  NumberInput,
  Paper,
  Stack,
  Table,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { Time } from "@/app/format";
import { useMay, useMe } from "@/app/me";
import { confirm, Empty, Failure, useTell, useTellBeside, Waiting } from "@/app/states";

type Scope = Schema["NewTokenRequest"]["scopes"][number];

/** Credentials for programs. */
export function Tokens() {
  const { t } = useTranslation("studios");
  const may = useMay("account:write");
  const tokens = api.useQuery("get", "/api/v1/tokens", { params: { query: { limit: 200 } } });
  if (tokens.error) return <Failure error={tokens.error} again={() => void tokens.refetch()} />;
  if (!tokens.data) return <Waiting />;
  return (
    <Stack maw={860}>
      {may && <NewToken />}
      {tokens.data.results.length === 0 ? (
        <Empty title={t("noTokens")}>{t("noTokensText")}</Empty>
      ) : (
        <Table.ScrollContainer minWidth={640}>
          <Table verticalSpacing="xs">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("name")}</Table.Th>
                <Table.Th>{t("tokenOwner")}</Table.Th>
                <Table.Th>{t("expires")}</Table.Th>
                <Table.Th>{t("lastUsed")}</Table.Th>
                <Table.Th />
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {tokens.data.results.map((token) => (
                <Row key={token.id} token={token} may={may} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Stack>
  );
}

function Row({ token, may }: { token: Schema["Token"]; may: boolean }) {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  const known = useQueryClient();
  const revoke = api.useMutation("delete", "/api/v1/tokens/{token_id}", {
    onSuccess: () => void known.invalidateQueries(),
    onError: useTell(),
  });
  return (
    <Table.Tr c={token.revoked_at ? "dimmed" : undefined}>
      <Table.Td>
        <Text size="sm">{token.name}</Text>
        <Text size="xs" c="dimmed">
          <Code>{token.prefix}…</Code> {token.scopes?.join(" ")}
        </Text>
      </Table.Td>
      <Table.Td>{token.owner || t("hasLeft")}</Table.Td>
      <Table.Td>{token.revoked_at ? t("revoked") : <Time at={token.expires_at} />}</Table.Td>
      <Table.Td>{token.last_used_at ? <Time at={token.last_used_at} /> : t("never")}</Table.Td>
      <Table.Td ta="right">
        {may && !token.revoked_at && (
          <Button
            size="compact-xs"
            variant="subtle"
            color="red"
            onClick={() =>
              confirm(
                {
                  title: t("revokeTitle", { name: token.name }),
                  children: t("revokeText"),
                  act: t("revoke"),
                  cancel: core("cancel"),
                },
                () => revoke.mutate({ params: { path: { token_id: token.id } } }),
              )
            }
          >
            {t("revoke")}
          </Button>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

function NewToken() {
  const { t } = useTranslation("studios");
  const known = useQueryClient();
  const scopes = useMe()?.scopes ?? [];
  const form = useForm<{ name: string; scopes: Scope[]; days: number }>({
    initialValues: { name: "", scopes: [], days: 90 },
  });
  const make = api.useMutation("post", "/api/v1/tokens", {
    onSuccess: () => {
      form.reset();
      void known.invalidateQueries();
    },
    onError: useTellBeside(form.setErrors),
  });
  return (
    <Paper withBorder p="md">
      <form onSubmit={form.onSubmit((body) => make.mutate({ body }))}>
        <Title order={2} size="h5" mb="xs">
          {t("newToken")}
        </Title>
        <Group align="flex-end">
          <TextInput label={t("tokenName")} required flex={1} miw={180} {...form.getInputProps("name")} />
          <MultiSelect
            label={t("tokenScopes")}
            data={scopes}
            required
            flex={2}
            miw={240}
            {...form.getInputProps("scopes")}
          />
          <NumberInput label={t("tokenDays")} min={1} max={366} w={130} {...form.getInputProps("days")} />
          <Button type="submit" loading={make.isPending}>
            {t("make")}
          </Button>
        </Group>
      </form>
      {make.data && (
        <Alert mt="md" title={t("tokenShown")}>
          <Group>
            <Code>{make.data.token}</Code>
            <CopyButton value={make.data.token}>
              {({ copied, copy }) => (
                <Button size="compact-xs" onClick={copy}>
                  {copied ? t("copied") : t("copy")}
                </Button>
              )}
            </CopyButton>
          </Group>
        </Alert>
      )}
    </Paper>
  );
}
