// User preferences: language, theme, vhost and columns. Stored by the browser; without storage they last for this visit.
import { Store } from "./store.js";

export const LANGUAGES = ["en", "zh"];
export const THEMES = ["auto", "light", "dark"];

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function stored(name) {
  try {
    return localStorage.getItem(`mirrormq.${name}`);
  } catch {
    return null;
  }
}

function kept(name, allowed, otherwise) {
  const value = stored(name);
  return allowed.includes(value) ? value : otherwise;
}

// Columns that the user has shown or hidden, by list: {queues: {node: false}}.
function keptColumns() {
  try {
    const value = JSON.parse(stored("columns"));
    return value && typeof value === "object" ? value : {};
  } catch {
    return {};
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
  vhost: stored("vhost") ?? "", // Lists show only this vhost; "" means all vhosts.
  columns: keptColumns(),
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

export function showColumn(list, column, shown) {
  const { columns } = preferences.value;
  const chosen = { ...columns, [list]: { ...columns[list], [column]: shown } };
  preferences.set({ columns: chosen });
  keep("columns", JSON.stringify(chosen));
}

darkSystem.addEventListener("change", apply);
apply();
