/** The portal's words: one namespace a room, English and Simplified Chinese. */
import i18next, { type ResourceLanguage } from "i18next";
import LanguageDetector from "i18next-browser-languagedetector";
import { initReactI18next } from "react-i18next";
import coreEn from "@/features/core/words/en.json";
import coreZh from "@/features/core/words/zh-CN.json";
import fleetEn from "@/features/fleet/words/en.json";
import fleetZh from "@/features/fleet/words/zh-CN.json";
import newJobEn from "@/features/jobs/new/words/en.json";
import newJobZh from "@/features/jobs/new/words/zh-CN.json";
import jobsEn from "@/features/jobs/words/en.json";
import jobsZh from "@/features/jobs/words/zh-CN.json";
import scenesEn from "@/features/scenes/words/en.json";
import scenesZh from "@/features/scenes/words/zh-CN.json";
import studiosEn from "@/features/studios/words/en.json";
import studiosZh from "@/features/studios/words/zh-CN.json";

export const LANGUAGES = { en: "English", "zh-CN": "简体中文" } as const;
export type Language = keyof typeof LANGUAGES;

const en = { core: coreEn, fleet: fleetEn, jobs: jobsEn, newJob: newJobEn, scenes: scenesEn, studios: studiosEn };
const chinese = { core: coreZh, fleet: fleetZh, jobs: jobsZh, newJob: newJobZh, scenes: scenesZh, studios: studiosZh };
export const words: Record<Language, ResourceLanguage> = { en, "zh-CN": chinese };

declare module "i18next" {
  interface CustomTypeOptions {
    defaultNS: "core";
    resources: typeof en;
    returnNull: false;
  }
}

export async function startWords(): Promise<void> {
  await i18next
    .use(LanguageDetector)
    .use(initReactI18next)
    .init({
      resources: words,
      supportedLngs: Object.keys(LANGUAGES),
      nonExplicitSupportedLngs: false,
      fallbackLng: (code) => (code?.startsWith("zh") ? ["zh-CN"] : ["en"]),
      ns: Object.keys(en),
      defaultNS: "core",
      interpolation: { escapeValue: false }, // React escapes
      detection: { order: ["localStorage", "navigator"], lookupLocalStorage: "farmhand.language", caches: [] },
    });
  document.documentElement.lang = i18next.language;
  i18next.on("languageChanged", (language) => {
    document.documentElement.lang = language;
  });
}

export function speak(language: string): void {
  if (language) localStorage.setItem("farmhand.language", language);
  else localStorage.removeItem("farmhand.language");
  void i18next.changeLanguage(language || undefined);
}
