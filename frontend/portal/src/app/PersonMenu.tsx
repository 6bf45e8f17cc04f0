/** Who one is: language, colours, the way out. */
import { Button, Menu, Text, useMantineColorScheme } from "@mantine/core";
import { IconCheck, IconLogout, IconMoon, IconSun, IconUserCircle } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { account } from "@/api/accounts";
import { api } from "@/api/client";
import { LANGUAGES, speak } from "./i18n";
import type { Me } from "./me";
import { forgetStudio } from "./session";

/** End the session and go to the door. */
export async function signOut(): Promise<void> {
  await account("DELETE", "auth/session");
  forgetStudio();
  location.assign("/sign-in");
}

export function PersonMenu({ me }: { me: Me }) {
  const { t, i18n } = useTranslation();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const change = api.useMutation("patch", "/api/v1/me");
  const isDark = colorScheme === "dark";
  const say = (language: string) => {
    speak(language);
    change.mutate({ body: { language } });
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button
          variant="subtle"
          color="gray"
          size="xs"
          aria-label={me.name || me.user}
          leftSection={<IconUserCircle size={18} aria-hidden />}
          flex="none"
        >
          <Text visibleFrom="sm" span inherit truncate maw={220}>
            {me.name || me.user}
          </Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{me.user}</Menu.Label>
        {Object.entries(LANGUAGES).map(([code, name]) => (
          <Menu.Item
            key={code}
            lang={code}
            onClick={() => say(code)}
            aria-current={i18n.language === code}
            rightSection={i18n.language === code && <IconCheck size={16} aria-hidden />}
          >
            {name}
          </Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item
          leftSection={isDark ? <IconSun size={16} aria-hidden /> : <IconMoon size={16} aria-hidden />}
          onClick={() => setColorScheme(isDark ? "light" : "dark")}
        >
          {isDark ? t("light") : t("dark")}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Item leftSection={<IconLogout size={16} aria-hidden />} onClick={() => void signOut()}>
          {t("signOut")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
