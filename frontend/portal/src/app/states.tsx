/** Waiting, nothing there, gone wrong: each says what to do next. */
import { Alert, Button, Center, Group, Loader, Stack, Text, Title } from "@mantine/core";
import { modals } from "@mantine/modals";
import { notifications } from "@mantine/notifications";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Refusal } from "@/api/refusal";

export function Waiting({ what }: { what?: string }) {
  const { t } = useTranslation();
  return (
    <Center p="xl" role="status">
      <Group>
        <Loader size="sm" />
        <Text c="dimmed">{what ?? t("waiting")}</Text>
      </Group>
    </Center>
  );
}

export function Empty({ title, children, action }: { title: string; children?: ReactNode; action?: ReactNode }) {
  return (
    <Center p="xl">
      <Stack align="center" maw={480} gap="sm">
        <Title order={2} size="h4">
          {title}
        </Title>
        <Text c="dimmed" ta="center">
          {children}
        </Text>
        {action}
      </Stack>
    </Center>
  );
}

/** The sentence of what went wrong: the portal's own for a code it knows, else the farm's. */
export function useSentence(): (error: unknown) => string {
  const { t, i18n } = useTranslation();
  return (error) => {
    if (!(error instanceof Refusal)) return t("unreachable");
    const key = `refusals.${error.code}`;
    return i18n.exists(key) ? t(key as "unreachable", error.params) : error.message;
  };
}

export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const { t } = useTranslation();
  const sentence = useSentence();
  return (
    <Alert color="red" title={t("wentWrong")} m="md" role="alert">
      <Stack gap="sm" align="flex-start">
        <Text>{sentence(error)}</Text>
        {again && (
          <Button size="xs" variant="default" onClick={again}>
            {t("tryAgain")}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** Tell of a failed act where there is no form to tell it in. */
export function useTell(): (error: unknown) => void {
  const { t } = useTranslation();
  const sentence = useSentence();
  return (error) =>
    notifications.show({ color: "red", title: t("wentWrong"), message: sentence(error), autoClose: 10_000 });
}

/** Tell of a refused form beside the fields it is about; what is about none, as of any act. */
export function useTellBeside(setErrors: (errors: Record<string, string>) => void): (error: unknown) => void {
  const tell = useTell();
  return (error) => {
    const errors = error instanceof Refusal ? error.byField() : {};
    if (Object.keys(errors).length) setErrors(errors);
    else tell(error);
  };
}

/** Ask before what cannot be undone; `children` says what it will do. */
export function confirm(
  texts: { title: string; children: ReactNode; act: string; cancel: string },
  act: () => void,
): void {
  modals.openConfirmModal({
    title: texts.title,
    children: (
      <Text size="sm" component="div">
        {texts.children}
      </Text>
    ),
    labels: { confirm: texts.act, cancel: texts.cancel },
    confirmProps: { color: "red" },
    onConfirm: act,
  });
}
