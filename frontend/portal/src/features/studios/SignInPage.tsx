import { Alert, Anchor, Button, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { account } from "@/api/accounts";
import { forgetStudio } from "@/app/session";
import { useSentence } from "@/app/states";
import { Door } from "./Door";

/** Only an address of this portal is gone back to. */
export function safeBack(back: string | undefined): string {
  return back && /^\/(?![/\\]|sign-in)/.test(back) ? back : "/jobs";
}

export function SignInPage() {
  const { t } = useTranslation("studios");
  const sentence = useSentence();
  const { back } = useSearch({ from: "/sign-in" });
  const form = useForm({ initialValues: { email: "", password: "" } });
  const signIn = useMutation({
    mutationFn: (body: { email: string; password: string }) => account("POST", "auth/login", body),
    onSuccess: () => {
      forgetStudio();
      location.assign(safeBack(back));
    },
  });
  return (
    <Door title={t("signIn")}>
      <form onSubmit={form.onSubmit((values) => signIn.mutate(values))}>
        <Stack>
          {signIn.error && <Alert color="red">{sentence(signIn.error)}</Alert>}
          <TextInput
            label={t("email")}
            type="email"
            autoComplete="username"
            required
            data-autofocus
            {...form.getInputProps("email")}
          />
          <PasswordInput
            label={t("password")}
            autoComplete="current-password"
            required
            {...form.getInputProps("password")}
          />
          <Button type="submit" loading={signIn.isPending}>
            {t("signIn")}
          </Button>
          <Anchor component={Link} to="/forgotten" size="sm">
            {t("forgotten")}
          </Anchor>
          <Text size="sm" c="dimmed">
            {t("noInvitation")}
          </Text>
        </Stack>
      </form>
    </Door>
  );
}
