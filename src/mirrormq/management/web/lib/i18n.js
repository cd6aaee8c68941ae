// Texts by key and language, and numbers as the language writes them.
import en from "../locales/en.js";
import zh from "../locales/zh.js";
import { preferences } from "./preferences.js";

const DICTIONARIES = { en, zh };

// English pages use the browser's date format: in many countries the day comes first and there is no AM.
const english = (navigator.languages || []).find((each) => /^en\b/i.test(each)) || "en";

export const locale = () => (preferences.value.language === "zh" ? "zh-CN" : english);

// A text with `n` may have a singular form, under its key and ".one".
export function t(key, values = {}) {
  const texts = DICTIONARIES[preferences.value.language];
  const text = (String(values.n) === "1" ? texts[`${key}.one`] : undefined) ?? texts[key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

export const known = (key) => key in en;
