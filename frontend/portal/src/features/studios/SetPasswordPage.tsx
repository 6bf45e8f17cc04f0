import { Alert, Anchor, Button, PasswordInput, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { account } from "@/api/accounts";
import { Refusal } from "@/api/refusal";
import { forgetStudio } from "@/app/session";
import { useSentence } from "@/app/states";
import { Door } from "./Door";

interface Asked {
  user?: { email: string };
}

/** Where an invitation, a first link or a forgotten password's mail leads. */
export function SetPasswordPage() {
  const { t } = useTranslation("studios");
  const sentence = useSentence();
  const { key } = useParams({ from: "/set-password/$key" });
  const form = useForm({ initialValues: { password: "" } });
  const set = useMutation({
    mutationFn: async ({ password }: { password: string }) => {
      const response = await fetch("/_allauth/browser/v1/auth/password/reset", {
        headers: { "X-Password-Reset-Key": key },
      });
      const asked = ((await response.json().catch(() => ({}))) as { data?: Asked }).data;
      await account("POST", "auth/password/reset", { key, password });
      const email = asked?.user?.email;
      if (email) await account("POST", "auth/login", { email, password }, { alsoFine: [401, 409] });
      return email;
    },
    onSuccess: (email) => {
      forgetStudio();
      location.assign(email ? "/jobs" : "/sign-in");
    },
  });
  const weak = set.error instanceof Refusal ? set.error.byField().password : undefined;
  return (
    <Door title={t("setPassword")}>
      <form onSubmit={form.onSubmit((values) => set.mutate(values))}>
        <Stack>
          {set.error && !weak && <Alert color="red">{sentence(set.error)}</Alert>}
          <PasswordInput
            label={t("newPassword")}
            description={t("passwordHint")}
            autoComplete="new-password"
            minLength={10}
            required
            error={weak}
            {...form.getInputProps("password")}
          />
          <Button type="submit" loading={set.isPending}>
            {t("setAndEnter")}
          </Button>
          <Anchor component={Link} to="/forgotten" size="sm">
            {t("forgotten")}
          </Anchor>
        </Stack>
      </form>
    </Door>
  );
}
