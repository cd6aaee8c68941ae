// Line chart over time: uPlot draws the lines; the legend is text, also for screen readers.
//
// series: [{name, label, tone, values, dash}]; `tone` is a colour of style/colours.css, so charts follow the theme.
// `past`: the last value is not current.
import uPlot from "../vendor/uplot.js";
import { dateTime, NOTHING, short, time } from "../lib/format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { locale, t } from "../lib/i18n.js";
import { preferences } from "../lib/preferences.js";
import { useStore } from "../lib/store.js";
import { useId } from "./forms.js";

const HEIGHT = 200;
const SPAN_S_MIN = 60;
const HIGHEST_MIN = 4; // An idle chart has whole messages on its axis.
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power); // Between ticks of bytes, which are shown in KiB, MiB and GiB.

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const DAY_S = 86400;

function clock(splitsS, stepS) {
  const options = stepS >= DAY_S ? { month: "short", day: "numeric" } : stepS >= 60 ? { hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const format = new Intl.DateTimeFormat(locale(), { ...options, hourCycle: "h23" });
  return splitsS.map((second) => format.format(new Date(second * 1000)));
}

function options(series, width, format, onCursor) {
  const soft = colour("ink-soft");
  const line = colour("line");
  const font = "12px system-ui, sans-serif";
  return {
    width, height: HEIGHT,
    padding: [10, 30, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, Math.max(HIGHEST_MIN, (high ?? 0) * 1.1)] } },
    axes: [
      { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, size: 5 }, size: 32, space: 64, values: (_, splits, __, ___, step) => clock(splits, step) },
      { stroke: soft, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, ...(format === short ? { size: 56 } : { size: 76, incrs: BYTE_STEPS }), space: 36, values: (_, splits) => splits.map(format) },
    ],
    series: [{}, ...series.map((each) => ({
      show: each.show, stroke: colour(each.tone), width: 2, dash: each.dash, points: { show: false },
    }))],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  };
}

function within(times, series, spanS) {
  const end = times.at(-1) ?? Date.now() / 1000;
  let first = times.findIndex((second) => second >= end - spanS);
  if (first < 0) first = times.length;
  // A short history fills the chart; it grows up to the span.
  const start = Math.max(end - spanS, Math.min(times[0] ?? end, end - SPAN_S_MIN));
  return { start, end, data: [times.slice(first), ...series.map((each) => each.values.slice(first))] };
}

export function Chart({ title, unit, times, series, tick, spanS = 300, past = false, format = short }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const [hidden, setHidden] = useState(new Set());
  const id = useId("chart");
  const dark = useStore(preferences, (value) => value.dark);
  const language = useStore(preferences, (value) => value.language);
  const { data, start, end } = within(times, series, spanS);
  const kinds = series.map((each) => each.name).join();

  useLayoutEffect(() => {
    plot.current = new uPlot(options(series.map((each) => ({ ...each, show: !hidden.has(each.name) })), box.current.clientWidth || 300, format, setAt), data, box.current);
    const watching = new ResizeObserver(() => {
      const width = box.current?.clientWidth;
      if (width && plot.current && width !== plot.current.width) plot.current.setSize({ width, height: HEIGHT });
    });
    watching.observe(box.current);
    return () => { watching.disconnect(); plot.current.destroy(); plot.current = null; };
  }, [dark, language, kinds]);

  useEffect(() => {
    plot.current.setData(data, false);
    plot.current.setScale("x", { min: start, max: end });
  }, [tick, spanS, dark, language, kinds, times.length]);

  // A click on a line's name hides the line, so that the scale fits the others.
  const toggle = (name, place) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
    plot.current.setSeries(place + 1, { show: !next.has(name) });
  };
  const index = at === null || at >= data[0].length ? data[0].length - 1 : at;
  const when = data[0][index];
  return html`<figure class="chart" data-points=${data[0].length} aria-labelledby=${id}>
    <figcaption class="chart-head"><span id=${id}>${title}</span> <span class="soft">${unit}</span>
      <span class="soft chart-when">${when === undefined ? "" : at === null && !past ? t("chart.now") : (spanS >= DAY_S ? dateTime : time)(when * 1000)}</span></figcaption>
    <div class="chart-box" ref=${box} aria-hidden="true"></div>
    <ul class="legend">${series.map((each, place) => {
      const value = data[place + 1][index];
      return html`<li key=${each.name}><button type="button" class="legend-button" aria-pressed=${!hidden.has(each.name)} title=${t("chart.toggle")} onClick=${() => toggle(each.name, place)}><span
        class=${`swatch ${each.tone}${each.dash ? " dashed" : ""}`} aria-hidden="true"></span>${each.label} <strong>${value === undefined || value === null ? NOTHING : format(value)}</strong></button></li>`;
    })}</ul>
  </figure>`;
}
