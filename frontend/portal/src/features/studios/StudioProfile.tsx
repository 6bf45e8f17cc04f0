import { Alert, Button, Select, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, type Schema } from "@/api/client";
import { Refusal } from "@/api/refusal";
import { useMay } from "@/app/me";
import { Failure, useSentence, Waiting } from "@/app/states";

const ZONES = [...new Set(["UTC", ...Intl.supportedValuesOf("timeZone")])];

/** The studio's name and the zone its months follow. */
export function StudioProfile() {
  const studio = api.useQuery("get", "/api/v1/studio");
  if (studio.error) return <Failure error={studio.error} again={() => void studio.refetch()} />;
  return studio.data ? <Form studio={studio.data} /> : <Waiting />;
}

function Form({ studio }: { studio: Schema["Studio"] }) {
  const { t } = useTranslation("studios");
  const { t: core } = useTranslation();
  const known = useQueryClient();
  const sentence = useSentence();
  const may = useMay("studio:write");
  const form = useForm({ initialValues: { name: studio.name, zone: studio.zone ?? "UTC" } });
  const change = api.useMutation("patch", "/api/v1/studio", {
    onSuccess: () => {
      notifications.show({ message: core("saved") });
      void known.invalidateQueries();
    },
    onError: (error) => form.setErrors(error instanceof Refusal ? error.byField() : {}),
  });
  return (
    <form onSubmit={form.onSubmit((body) => change.mutate({ body }))}>
      <Stack maw={420}>
        {change.error && !Object.keys(form.errors).length && <Alert color="red">{sentence(change.error)}</Alert>}
        <TextInput label={t("name")} required disabled={!may} {...form.getInputProps("name")} />
        <Select
          label={t("zone")}
          description={t("studioZoneHint")}
          data={ZONES}
          searchable
          allowDeselect={false}
          limit={80}
          disabled={!may}
          {...form.getInputProps("zone")}
        />
        <TextInput
          label={t("currency")}
          description={t("currencyHint")}
          value={studio.currency}
          readOnly
          variant="filled"
        />
        <Button type="submit" loading={change.isPending} disabled={!may} w="fit-content">
          {core("save")}
        </Button>
      </Stack>
    </form>
  );
}
