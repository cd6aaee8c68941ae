// Numbers, sizes and times for people.
import { locale, t } from "./i18n.js";

const formatters = new Map();

function formatter(kind, options) {
  const key = locale() + kind + JSON.stringify(options);
  if (!formatters.has(key)) formatters.set(key, new Intl[kind](locale(), options));
  return formatters.get(key);
}

export const NOTHING = "–";

export function count(value) {
  return Number.isFinite(value) ? formatter("NumberFormat", { maximumFractionDigits: 0 }).format(value) : NOTHING;
}

export function short(value) {
  if (!Number.isFinite(value)) return NOTHING;
  if (Math.abs(value) < 10000) {
    return formatter("NumberFormat", { maximumFractionDigits: Math.abs(value) < 10 ? 1 : 0 }).format(value);
  }
  return formatter("NumberFormat", { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export const rate = (value) => (Number.isFinite(value) ? t("unit.rate", { n: short(value) }) : NOTHING);

export const percent = (part) =>
  Number.isFinite(part) ? formatter("NumberFormat", { style: "percent", maximumFractionDigits: 0 }).format(part) : NOTHING;

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

export function bytes(value) {
  if (!Number.isFinite(value)) return NOTHING;
  let index = 0;
  while (value >= 1024 && index < SIZES.length - 1) {
    value /= 1024;
    index += 1;
  }
  const digits = index === 0 || value >= 100 ? 0 : 1;
  return `${formatter("NumberFormat", { maximumFractionDigits: digits }).format(value)} ${SIZES[index]}`;
}

export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return NOTHING;
  if (milliseconds < 1000) return t("unit.ms", { n: count(milliseconds) });
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 10) return t("unit.s", { n: formatter("NumberFormat", { maximumFractionDigits: 1 }).format(milliseconds / 1000) });
  if (seconds < 120) return t("unit.s", { n: count(seconds) });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return t("unit.min", { n: count(minutes), rest: seconds % 60 });
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return t("unit.h", { n: count(hours), rest: minutes % 60 });
  return t("unit.d", { n: count(Math.floor(hours / 24)), rest: hours % 24 });
}

export const time = (ms) => formatter("DateTimeFormat", { timeStyle: "medium" }).format(new Date(ms));
export const dateTime = (ms) => formatter("DateTimeFormat", { dateStyle: "medium", timeStyle: "medium" }).format(new Date(ms));
export const day = (ms) => formatter("DateTimeFormat", { dateStyle: "full" }).format(new Date(ms));

// The part of a node's name that differs from its neighbours'.
export const shortNode = (name) => String(name).split("@")[0];
