// User preferences: language and theme. Stored by the browser; without storage they last for this visit.
import { Store } from "./store.js";

export const LANGUAGES = ["en", "zh"];
export const THEMES = ["auto", "light", "dark"];

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function kept(name, allowed, otherwise) {
  try {
    const value = localStorage.getItem(`mirrormq.${name}`);
    return allowed.includes(value) ? value : otherwise;
  } catch {
    return otherwise;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(`mirrormq.${name}`, value);
  } catch { /* Without storage the choice lasts for this visit. */ }
}

const spoken = /^zh\b/i.test(navigator.language || "") ? "zh" : "en";
export const preferences = new Store({
  language: kept("language", LANGUAGES, spoken),
  theme: kept("theme", THEMES, "auto"),
  dark: false,
});

function apply() {
  const { language, theme } = preferences.value;
  const dark = theme === "dark" || (theme === "auto" && darkSystem.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  preferences.set({ dark });
}

export function choose(name, value) {
  preferences.set({ [name]: value });
  keep(name, value);
  apply();
}

darkSystem.addEventListener("change", apply);
apply();
