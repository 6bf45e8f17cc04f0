import { Alert, Button, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useTranslation } from "react-i18next";
import { api } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { LANGUAGES, speak } from "@/app/i18n";
import { type Me, useMe } from "@/app/me";
import { useSentence, Waiting } from "@/app/states";

const ZONES = Intl.supportedValuesOf("timeZone");

/** One's own name, language and zone. */
export function Profile() {
  const me = useMe();
  return me ? <Form me={me} /> : <Waiting />;
}

function Form({ me }: { me: Me }) {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  const sentence = useSentence();
  const form = useForm({ initialValues: { name: me.name, language: me.language, zone: me.zone } });
  const change = api.useMutation("patch", "/api/v1/me", {
    onSuccess: (now) => {
      speak(now.language);
      notifications.show({ message: core("saved") });
    },
    onError: (error) => form.setErrors(error instanceof Refusal ? error.byField() : {}),
  });
  return (
    <form onSubmit={form.onSubmit((body) => change.mutate({ body }))}>
      <Stack maw={420}>
        {change.error && !Object.keys(form.errors).length && <Alert color="red">{sentence(change.error)}</Alert>}
        <TextInput label={t("email")} value={me.user} readOnly variant="filled" />
        <TextInput label={t("name")} autoComplete="name" {...form.getInputProps("name")} />
        <Select
          label={t("language")}
          data={[
            { value: "", label: t("asBrowser") },
            ...Object.entries(LANGUAGES).map(([value, label]) => ({ value, label })),
          ]}
          allowDeselect={false}
          {...form.getInputProps("language")}
        />
        <Select
          label={t("zone")}
          data={[{ value: "", label: t("asBrowser") }, ...ZONES.map((zone) => ({ value: zone, label: zone }))]}
          searchable
          allowDeselect={false}
          limit={80}
          {...form.getInputProps("zone")}
        />
        <Button type="submit" loading={change.isPending} w="fit-content">
          {core("save")}
        </Button>
      </Stack>
    </form>
  );
}
