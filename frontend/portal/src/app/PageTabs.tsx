/** The tabs of a page. Which one is open stands in the address; one that there is not is the first. */
import { Tabs } from "@mantine/core";
import type { ComponentType } from "react";

interface Props<Tab extends string> {
  tabs: Record<Tab, ComponentType>;
  open: string | undefined;
  label: (tab: Tab) => string;
  go: (tab: string | undefined) => void;
}

export function PageTabs<Tab extends string>({ tabs, open, label, go }: Props<Tab>) {
  const names = Object.keys(tabs) as [Tab, ...Tab[]];
  const shown = names.find((name) => name === open) ?? names[0];
  const Page: ComponentType = tabs[shown];
  return (
    <Tabs value={shown} onChange={(next) => go(next ?? undefined)}>
      <Tabs.List mb="md">
        {names.map((name) => (
          <Tabs.Tab key={name} value={name}>
            {label(name)}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      <Tabs.Panel value={shown}>
        <Page />
      </Tabs.Panel>
    </Tabs>
  );
}
