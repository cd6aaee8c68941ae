// Failover timeline as lanes: one per node, filled while it ran, with marks for queue events.
import { dateTime, dayTime, fitted, shortNode, time } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { useNarrow } from "./circle.js";

const HOUR_MS = 3600000;
const SPANS = { hour: HOUR_MS, day: 24 * HOUR_MS, all: Infinity };
const WIDE = { left: 110, width: 800, letters: 13, ticks: [0, 0.25, 0.5, 0.75, 1] };
const NARROW = { left: 84, width: 400, letters: 8, ticks: [0, 0.5, 1] }; // Phones: letters keep their size.
const LANE = 34;
const TOP = 14;
const MARK = 9; // Radius of a mark.
const OUTAGE = { least: 6, height: 28 }; // An outage of any length is visible, and taller than the marks on it.
const MARKS = { promoted: "★", synchronised: "✓", left_in_sync: "…", partition: "✕", healed: "○", node_down: "", node_up: "" };

// Times at which a node was down, from its failures and restarts.
export function downtimes(events, node, startMs, endMs) {
  const found = [];
  let since = null;
  for (const event of events) {
    if (event.node !== node) continue;
    if (event.kind === "node_down" && since === null) since = event.at_ms;
    if (event.kind === "node_up") {
      if (since !== null) found.push([since, event.at_ms]);
      since = null;
    }
  }
  if (since !== null) found.push([since, endMs]);
  return found.map(([from, to]) => [Math.max(from, startMs), Math.min(to, endMs)]).filter(([from, to]) => to > from);
}

// Position of an outage: at least `least` wide, centred, and inside its lane.
export function outage(from, to, left, right) {
  const width = Math.max(OUTAGE.least, to - from);
  return { x: Math.min(Math.max((from + to - width) / 2, left), right - width), width };
}

// Shortest span that contains an event.
function fitting(events, nowMs) {
  const last = Math.max(...events.map((event) => event.at_ms));
  return Object.keys(SPANS).find((name) => nowMs - last < SPANS[name]);
}

export function Lanes({ events, nodes, nowMs }) {
  const [chosen, setChosen] = useState(null);
  const span = chosen || fitting(events, nowMs);
  return html`<div class="choice" role="group" aria-label=${t("timeline.span")}>${Object.keys(SPANS).map((name) => html`<button type="button" key=${name}
      aria-pressed=${name === span} onClick=${() => setChosen(name)}>${t(`timeline.${name}`)}</button>`)}</div>
    <${Drawing} events=${events} nodes=${nodes} nowMs=${nowMs} spanMs=${SPANS[span]} />`;
}

function Drawing({ events, nodes, nowMs, spanMs }) {
  const narrow = useNarrow();
  const { left, width, letters, ticks: parts } = narrow ? NARROW : WIDE;
  const ordered = [...events].sort((one, other) => one.at_ms - other.at_ms);
  const names = [...new Set([...nodes.map((node) => node.name), ...ordered.map((event) => event.node).filter(Boolean)])].sort();
  const endMs = Math.max(nowMs, ordered.at(-1).at_ms + 1000);
  const shown = ordered.filter((event) => event.at_ms >= endMs - spanMs);
  const firstMs = (shown[0] || ordered.at(-1)).at_ms;
  const startMs = Math.max(endMs - spanMs, firstMs - Math.max(1000, (endMs - firstMs) * 0.06));
  const x = (ms) => left + ((ms - startMs) / (endMs - startMs)) * (width - left - 10);
  const height = TOP + names.length * LANE + 26;
  const ticks = parts.map((part) => startMs + (endMs - startMs) * part);
  return html`<div class="lanes-box"><svg class=${`lanes${narrow ? " brief" : ""}`} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${t("timeline.lanes", { n: names.length, from: dateTime(startMs), to: dateTime(endMs) })}>
    ${ticks.map((ms, index) => html`<g key=${index}><line class="lanes-tick" x1=${x(ms)} x2=${x(ms)} y1=${TOP - 6} y2=${height - 22} />
      <text class="lanes-time" x=${x(ms)} y=${height - 6} text-anchor=${index === 0 ? "start" : index === ticks.length - 1 ? "end" : "middle"}>${(endMs - startMs > 24 * HOUR_MS ? dayTime : time)(ms)}</text></g>`)}
    ${names.map((name, index) => {
      const y = TOP + index * LANE + LANE / 2;
      return html`<g key=${name}><text class="lanes-name" x="4" y=${y} dominant-baseline="central">${fitted(shortNode(name), letters)}</text>
        <rect class="lanes-up" x=${left} y=${y - 7} width=${width - left - 10} height="14" rx="7" />
        ${downtimes(ordered, name, startMs, endMs).map(([from, to]) => {
          const place = outage(x(from), x(to), left, width - 10);
          return html`<rect key=${from} class="lanes-down" x=${place.x} y=${y - OUTAGE.height / 2} width=${place.width} height=${OUTAGE.height} rx="3"><title>${`${t("node.stopped")}: ${dateTime(from)} – ${time(to)}`}</title></rect>`;
        })}
        ${shown.filter((event) => event.node === name && MARKS[event.kind]).map((event, place) => html`<g key=${`${event.at_ms} ${place}`} class=${`lanes-mark ${event.kind}`}>
          <circle cx=${x(event.at_ms)} cy=${y} r=${MARK} /><text x=${x(event.at_ms)} y=${y} text-anchor="middle" dominant-baseline="central">${MARKS[event.kind]}</text></g>`)}</g>`;
    })}
  </svg></div>`;
}
