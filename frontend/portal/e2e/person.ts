/** What the farm of these stories says of itself, and what a person does at the door. */
import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

export const PASSWORD = "four words of a kind";

export function told(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: tests/portal runs these stories`);
  return value;
}

export async function enter(page: Page): Promise<void> {
  await page.goto("/sign-in");
  await page.getByLabel("Mail address").fill(told("E2E_EMAIL"));
  await page.getByLabel(/^Password/).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("heading", { name: "Jobs", exact: true })).toBeVisible();
}

/** No serious fault for people who use the page otherwise. */
export async function expectAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page })
    .withTags(["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"])
    .analyze();
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`)).toEqual([]);
}
