/** One job from a dropped folder to its statement, as an artist does it. */
import { expect, test } from "@playwright/test";
import { enter, expectAccessible, PASSWORD, told } from "./person";

test.describe.configure({ mode: "serial" });

test("the first link sets a password and lets the person in", async ({ page }) => {
  await page.goto(told("E2E_LINK"));
  await expectAccessible(page);
  await page.getByLabel("New password").fill(PASSWORD);
  await page.getByRole("button", { name: "Set it and sign in" }).click();

  await expect(page.getByRole("heading", { name: "No jobs yet" })).toBeVisible();
  await expectAccessible(page);
});

test("a wrong password is told, and the address is gone back to", async ({ page }) => {
  await page.goto("/settings?tab=tokens");
  await page.getByLabel("Mail address").fill(told("E2E_EMAIL"));
  await page.getByLabel(/^Password/).fill("not this one");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByText("The mail address or the password is wrong.")).toBeVisible();

  await page.getByLabel(/^Password/).fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();

  await expect(page.getByRole("tab", { name: "API tokens", selected: true })).toBeVisible();
});

test("a folder is sent, looked into, ordered, approved, watched and paid", async ({ page }) => {
  const errors: string[] = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await enter(page);
  await page.getByRole("link", { name: "Render a first scene" }).click();

  await page.getByTestId("folder").setInputFiles(told("E2E_SCENE"));
  await page.getByRole("textbox", { name: "Scene" }).fill("Barn");
  // The network goes away in mid-upload and comes back: nothing is asked of the person.
  let isCut = true;
  await page.route("**/files/**", (route) => (isCut ? route.abort() : route.continue()));
  await page.getByRole("button", { name: "Send it" }).click();
  await expect(page.getByText("The network is away.")).toBeVisible();
  isCut = false;

  await expect(page.getByRole("heading", { name: "Files it needs" })).toBeVisible({ timeout: 90_000 });
  await expectAccessible(page);
  await page.getByRole("textbox", { name: "Frames" }).fill("1-x");
  await expect(page.locator(".mantine-InputWrapper-error").first()).toBeVisible();
  await page.getByRole("textbox", { name: "Frames" }).fill("1-5");
  await expect(page.getByText("5 tasks")).toBeVisible();
  await page.getByLabel("Size").fill("10");
  await page.getByRole("button", { name: "Render 3 frames first" }).click();

  await expect(page.getByText("the rest waits for your word")).toBeVisible({ timeout: 120_000 });
  await expect(page.getByText(/On cpu: .* for the 2 frames/)).toBeVisible();
  await expectAccessible(page);
  await page.reload();
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByText("5 of 5 done").first()).toBeVisible({ timeout: 120_000 });

  const grid = page.getByRole("application");
  await grid.focus();
  await grid.press("ArrowRight");
  await grid.press("ArrowRight");
  await expect(page.getByRole("heading", { name: "Frame 2" })).toBeVisible();
  await expect(page.locator(".picture-ground img")).toBeVisible();
  await expect(page).toHaveURL(/from=1/);
  await page.getByRole("button", { name: "Log" }).first().click();
  await expectAccessible(page);
  await page.getByRole("button", { name: "Render again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Render again" }).click();
  await expect(page.getByText("1 frame is queued again.")).toBeVisible();
  await expect(page.getByText("5 of 5 done").first()).toBeVisible({ timeout: 90_000 });

  await page.getByRole("tab", { name: "Cost" }).click();
  await expect(page.getByText(/for 6 attempts/)).toBeVisible({ timeout: 60_000 });
  await expect(page.getByRole("cell", { name: "frame 2" })).toHaveCount(2);
  await page.getByRole("tab", { name: "Movie" }).click();
  await expect(page.locator("video")).toBeVisible({ timeout: 60_000 });
  await page.goBack();
  await expect(page.getByRole("tab", { name: "Cost", selected: true })).toBeVisible();
  expect(errors.filter((text) => !text.includes("ERR_FAILED") && !text.includes("422"))).toEqual([]);
});

test("people and tokens are settled", async ({ page }) => {
  await enter(page);
  await page.goto("/settings?tab=members");
  await page.getByLabel("Mail address").fill("bo@example.com");
  await page.getByRole("button", { name: "Invite" }).click();
  await expect(page.getByText("bo@example.com is invited")).toBeVisible();
  await expectAccessible(page);

  await page.getByRole("tab", { name: "API tokens" }).click();
  await page.getByLabel("What is it for?").fill("pipeline");
  await page.getByLabel("What may it do?").first().press("ArrowDown");
  await page.getByRole("option", { name: "jobs:read" }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Make it" }).click();
  await expect(page.getByText(/^fh_/).first()).toBeVisible();
  await expectAccessible(page);
});

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

test("the portal speaks Chinese, and keeps to it", async ({ page }) => {
  await enter(page);
  await page.getByRole("button", { name: told("E2E_EMAIL") }).click();
  await page.getByRole("menuitem", { name: "简体中文" }).click();
  await expect(page.getByRole("heading", { name: "作业", exact: true })).toBeVisible();

  await page.reload();

  await expect(page.getByRole("heading", { name: "作业", exact: true })).toBeVisible();
  await expectAccessible(page);
});
