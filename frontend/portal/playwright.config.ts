/** Stories in a real browser against a real farm; tests/portal starts it and says where it is. */
import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "e2e",
  workers: 1,
  timeout: 240_000,
  expect: { timeout: 15_000 },
  reporter: "list",
  outputDir: process.env.E2E_OUT ?? "test-results",
  use: {
    baseURL: process.env.E2E_URL,
    actionTimeout: 15_000,
    locale: "en",
    viewport: { width: 1360, height: 860 },
    trace: "retain-on-failure",
    launchOptions: { executablePath: process.env.E2E_CHROMIUM, args: ["--no-sandbox"] },
  },
});
