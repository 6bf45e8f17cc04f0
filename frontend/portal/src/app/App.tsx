/** What stands around all pages: colours, what is known of the farm, messages, the addresses. */
import { MantineProvider } from "@mantine/core";
import { ModalsProvider } from "@mantine/modals";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { queries } from "./queries";
import { router } from "./router";
import { legible, themeWith } from "./theme";

export function App() {
  const { t } = useTranslation();
  const close = t("close");
  const theme = useMemo(() => themeWith(close), [close]);
  return (
    <MantineProvider theme={theme} cssVariablesResolver={legible} defaultColorScheme="dark">
      <QueryClientProvider client={queries}>
        <ModalsProvider>
          <Notifications position="bottom-right" />
          <RouterProvider router={router} />
        </ModalsProvider>
      </QueryClientProvider>
    </MantineProvider>
  );
}
