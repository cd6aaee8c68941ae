// Charts over a chosen span: the samples that the node keeps, and for the last minutes the live stream after them.
//
// charts: [{id, title, unit, lines: [[name, tone, dash]], of, isLevel, isNeverZero, format}]; `of(data)` is the part of the reply
// with the numbers. `live`: {series, tick} of the stream.
import { html, useState } from "../lib/html.js";
import { joined, linesOf, SPANS_S, useHistory } from "../lib/history.js";
import { t } from "../lib/i18n.js";
import { SECONDS_KEPT } from "../lib/series.js";
import { Panel, Refusal } from "./basics.js";
import { Chart } from "./chart.js";

const spanText = (spanS) => (spanS < 3600 ? t("chart.minutes", { n: spanS / 60 }) : spanS < 86400 ? t("chart.hours", { n: spanS / 3600 }) : t("chart.day"));

function SpanChoice({ spanS, onChange }) {
  return html`<div class="choice" role="group" aria-label=${t("chart.span")}>${SPANS_S.map((each) => html`<button type="button" key=${each}
    aria-pressed=${each === spanS} onClick=${() => onChange(each)}>${spanText(each)}</button>`)}</div>`;
}

export function HistoryPanel({ id, title, where, columns, charts, live, children }) {
  const [spanS, setSpanS] = useState(SECONDS_KEPT);
  const isLive = Boolean(live) && spanS <= SECONDS_KEPT;
  const { data, error, tick } = useHistory(where, isLive ? SECONDS_KEPT : spanS, { fresh: !isLive, columns });
  const shown = charts.map((chart) => {
    const names = chart.lines.map(([name]) => name);
    const past = linesOf(data && chart.of(data), names, chart);
    return [chart, isLive ? joined(past, live.series, names) : past];
  });
  return html`<${Panel} id=${id} title=${title} wide actions=${html`<${SpanChoice} spanS=${spanS} onChange=${setSpanS} />`}>
    ${!isLive && html`<${Refusal} error=${error} />`}
    <div class="charts">${shown.map(([chart, { times, values }]) => html`<${Chart} key=${chart.id} title=${chart.title} unit=${chart.unit} format=${chart.format} times=${times} tick=${isLive ? live.tick : tick} spanS=${spanS}
      series=${chart.lines.map(([name, tone, dash]) => ({ name, tone, dash, label: t(`number.${name}`), values: values[name] }))} />`)}</div>
    ${children}
  <//>`;
}
