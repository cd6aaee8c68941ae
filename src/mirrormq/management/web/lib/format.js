// Formatting of numbers, sizes and times.
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

export function exact(value) {
  return Number.isFinite(value) ? formatter("NumberFormat", { maximumFractionDigits: 3 }).format(value) : NOTHING;
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

export const byteRate = (value) => (Number.isFinite(value) ? t("unit.rate", { n: bytes(value) }) : NOTHING);

const both = (unit, n, rest) => (rest ? t(`unit.${unit}`, { n: count(n), rest }) : t(`unit.only.${unit}`, { n: count(n) }));

export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return NOTHING;
  if (milliseconds < 1000) return t("unit.ms", { n: count(milliseconds) });
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 10) return t("unit.s", { n: formatter("NumberFormat", { maximumFractionDigits: 1 }).format(milliseconds / 1000) });
  if (seconds < 120) return t("unit.s", { n: count(seconds) });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return both("min", minutes, seconds % 60);
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? both("h", hours, minutes % 60) : both("d", Math.floor(hours / 24), hours % 24);
}

const AGO_MS_MIN = 2000; // More recent times are shown as now.

export function ago(ms, nowMs) {
  if (!ms) return NOTHING;
  return nowMs - ms < AGO_MS_MIN ? t("unit.justNow") : t("unit.ago", { n: duration(Math.floor((nowMs - ms) / 1000) * 1000) });
}

export const time = (ms) => formatter("DateTimeFormat", { timeStyle: "medium" }).format(new Date(ms));
export const dateTime = (ms) => formatter("DateTimeFormat", { dateStyle: "medium", timeStyle: "medium" }).format(new Date(ms));
export const dayTime = (ms) => formatter("DateTimeFormat", { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }).format(new Date(ms));
export const day = (ms) => formatter("DateTimeFormat", { dateStyle: "full" }).format(new Date(ms));

// Part of a node's name before the host, which usually differs between nodes.
export const shortNode = (name) => String(name).split("@")[0];

// End of a name that is too long: similar names usually differ at their end.
export const fitted = (name, letters) => (name.length > letters ? `…${name.slice(1 - letters)}` : name);
