/** What whoever looks after the farm sees: fleets, workers, and why there are so many. */
import { expect, test } from "@playwright/test";
import { enter, expectAccessible } from "./person";

test("fleets are watched, stopped and started, and their decisions read", async ({ page }) => {
  await enter(page);
  await page.getByRole("link", { name: "Machines" }).click();
  const fleet = page.getByRole("region", { name: "local", exact: true });
  await expect(fleet.getByText(/of at most/)).toBeVisible();
  await expectAccessible(page);

  await fleet.getByRole("button", { name: "Pause" }).click();
  await expect(page.getByRole("dialog", { name: "Pause local?" })).toContainText("Nothing more is launched");
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await expect(fleet.getByText("Paused")).toBeVisible();
  await fleet.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await expect(fleet.getByText("Paused")).toBeHidden();

  await page.getByRole("tab", { name: "Workers" }).click();
  await page.getByRole("checkbox", { name: "Show those that are gone" }).check();
  await expect(page.getByRole("row").nth(1).or(page.getByText("No machines")).first()).toBeVisible();
  await expectAccessible(page);

  await page.getByRole("tab", { name: "Decisions" }).click();
  await page.getByRole("combobox", { name: "Kind" }).click();
  await page.getByRole("option", { name: "Launch" }).click();
  await expect(page.getByRole("row").nth(1).or(page.getByText("Nothing decided")).first()).toBeVisible();
  await expectAccessible(page);
});
