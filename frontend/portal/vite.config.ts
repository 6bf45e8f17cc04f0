import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Writes .gz and .br beside each text file: the farm serves what a browser takes, and compresses nothing itself. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      const assets = join(import.meta.dirname, "dist/assets");
      for (const name of readdirSync(assets).filter((each) => /\.(js|css|svg|json)$/.test(each))) {
        const content = readFileSync(join(assets, name));
        writeFileSync(join(assets, `${name}.gz`), gzipSync(content, { level: 9 }));
        writeFileSync(join(assets, `${name}.br`), brotliCompressSync(content));
      }
    },
  };
}

const FARMS = ["/api", "/_allauth", "/files", "/archives", "/static", "/events"];
const farm = process.env.FARM_URL ?? "http://127.0.0.1:8780";

export default defineConfig(({ command }) => ({
  base: command === "build" ? "/static/portal/" : "/",
  plugins: [react(), compressed()],
  resolve: { alias: { "@": join(import.meta.dirname, "src") } },
  build: { target: "es2023", sourcemap: false, assetsInlineLimit: 0 },
  worker: { format: "es" },
  server: {
    // The farm must see the host that the browser sees, or it takes a form for forged.
    proxy: Object.fromEntries(FARMS.map((path) => [path, { target: farm, changeOrigin: false }])),
  },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"], setupFiles: ["src/app/testing.ts"] },
}));
