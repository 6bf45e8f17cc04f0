import { Alert, Anchor, Button, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { account } from "@/api/accounts";
import { useSentence } from "@/app/states";
import { Door } from "./Door";

export function ForgottenPage() {
  const { t } = useTranslation("studios");
  const sentence = useSentence();
  const form = useForm({ initialValues: { email: "" } });
  const ask = useMutation({
    mutationFn: (body: { email: string }) => account("POST", "auth/password/request", body),
  });
  return (
    <Door title={t("forgottenTitle")}>
      {ask.isSuccess ? (
        <Text>{t("linkSent", { email: form.values.email })}</Text>
      ) : (
        <form onSubmit={form.onSubmit((values) => ask.mutate(values))}>
          <Stack>
            <Text size="sm">{t("forgottenText")}</Text>
            {ask.error && <Alert color="red">{sentence(ask.error)}</Alert>}
            <TextInput
              label={t("email")}
              type="email"
              autoComplete="username"
              required
              {...form.getInputProps("email")}
            />
            <Button type="submit" loading={ask.isPending}>
              {t("sendLink")}
            </Button>
          </Stack>
        </form>
      )}
      <Anchor component={Link} to="/sign-in" size="sm">
        {t("backToSignIn")}
      </Anchor>
    </Door>
  );
}
