// Formatting of job reports: a number's unit is in its name, and rates become chart lines.
import { bytes, dateTime, duration, exact, NOTHING, rate, time } from "./format.js";
import { t } from "./i18n.js";

const JOBS_REMEMBERED_MAX = 100;
const POINTS_MAX = 600;
const LINES_MAX = 6;
const ISO_TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;
const TIME_COLUMNS = ["begin", "start", "time", "at", "window", "end"];
const TONES = ["publish", "deliver", "ack", "redeliver", "ready", "unacked"];

export const isTime = (value) => typeof value === "string" && ISO_TIME.test(value) && !Number.isNaN(Date.parse(value));

export const daysOf = (rows) => new Set(rows.flatMap((row) => Object.values(row).filter(isTime).map((value) => new Date(value).toDateString())));

export const isRate = (name) => /(^|_)per_s(econd)?$/.test(name);

const milliseconds = (value) => (value < 10 ? t("unit.ms", { n: exact(value) }) : duration(value));
const UNITS = [[/(^|_)bytes(_|$)/, bytes], [/(^|_)ms(_|$)/, milliseconds], [/(^|_)(s|seconds)$/, (value) => duration(value * 1000)]];

// `days`: number of days in the table; with one day, times omit the date.
export function shown(name, value, days = 2) {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "boolean") return value ? t("common.yes") : t("common.no");
  if (typeof value === "string") return isTime(value) ? (days === 1 ? time : dateTime)(Date.parse(value)) : value;
  if (isRate(name)) return rate(value);
  const unit = UNITS.find(([pattern]) => pattern.test(name));
  return unit ? unit[1](value) : exact(value);
}

// The names of all columns, in the order in which they first appear.
export const columnsOf = (rows) => [...new Set(rows.flatMap((row) => Object.keys(row)))];

const secondOf = (value) => (isTime(value) ? Date.parse(value) / 1000 : NaN);

// Convert a table with a time and a rate in each row to chart lines, one per kind of row; null for other tables.
export function linesOf(rows) {
  const columns = columnsOf(rows);
  const when = TIME_COLUMNS.find((name) => rows.every((row) => Number.isFinite(secondOf(row[name]))));
  const rates = columns.filter((name) => isRate(name));
  if (!when || !rates.length) return null;
  const byKind = rates.length === 1 && columns.includes("kind");
  const sums = new Map();
  const times = [...new Set(rows.map((row) => secondOf(row[when])))].sort((one, other) => one - other);
  if (times.length < 2) return null;
  for (const row of rows) {
    for (const name of rates) {
      const line = byKind ? String(row.kind) : name;
      if (!sums.has(line)) sums.set(line, new Map());
      const second = secondOf(row[when]);
      sums.get(line).set(second, (sums.get(line).get(second) || 0) + (row[name] || 0));
    }
  }
  return coloured(times, [...sums].slice(0, LINES_MAX).map(([name, values]) => [name, times.map((second) => values.get(second) ?? 0)]));
}

function coloured(times, lines) {
  return { times, series: lines.map(([name, values], index) => ({ name, label: name, tone: TONES[index], values })) };
}

const remembered = new Map();
const keyOf = (job) => JSON.stringify([job.vhost, job.job, job.started]);

// Rates of a job are kept while the page is open: the cluster stores only the last report.
export function remember(job) {
  const rates = Object.entries(job.numbers).filter(([name, value]) => isRate(name) && typeof value === "number");
  if (!rates.length) return;
  const key = keyOf(job);
  const heard = remembered.get(key) || [];
  if (heard.at(-1)?.at === job.reported) return;
  heard.push({ at: job.reported, rates: Object.fromEntries(rates) });
  if (heard.length > POINTS_MAX) heard.shift();
  remembered.delete(key);
  remembered.set(key, heard);
  if (remembered.size > JOBS_REMEMBERED_MAX) remembered.delete(remembered.keys().next().value);
}

export function rememberedLines(job) {
  const heard = remembered.get(keyOf(job)) || [];
  const names = [...new Set(heard.flatMap((each) => Object.keys(each.rates)))].slice(0, LINES_MAX);
  return coloured(heard.map((each) => each.at / 1000), names.map((name) => [name, heard.map((each) => each.rates[name] ?? null)]));
}
