// Map of nodes and links: connected, cut by a partition, or down with a stopped node.
import { count, fitted, shortNode } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { arc, point, useAngles, useNarrow } from "./circle.js";

const CENTRE = { x: 200, y: 165 };
const RADIUS = 108;
const SIZE = 30;
const LETTERS = { wide: 22, narrow: 14 }; // Letters of a name below its disc.

export function linkState(one, other) {
  if (one.running === false || other.running === false) return "gone";
  const cut = (one.partitions || []).includes(other.name) || (other.partitions || []).includes(one.name);
  return cut ? "cut" : "whole";
}

export function linksOf(nodes) {
  return nodes.flatMap((one, index) => nodes.slice(index + 1).map((other) => ({ one, other, state: linkState(one, other) })));
}

function described(nodes, links) {
  const bad = links.filter((link) => link.state === "cut").map((link) => `${link.one.name} – ${link.other.name}`);
  return t("map.described", { n: nodes.length, running: nodes.filter((node) => node.running !== false).length })
    + (bad.length ? ` ${t("map.cut", { links: bad.join("; ") })}` : "");
}

export function ClusterMap({ nodes, masters }) {
  const names = nodes.map((node) => node.name);
  const angles = useAngles(names);
  const alone = nodes.length === 1;
  const at = (node) => (alone ? CENTRE : point(CENTRE, RADIUS, angles[node.name]));
  const links = linksOf(nodes);
  const narrow = useNarrow();
  const lowest = Math.max(...nodes.map((_, index) => point(CENTRE, RADIUS, (index / nodes.length) * 2 * Math.PI).y));
  const view = alone ? "120 110 160 120" : `0 0 400 ${Math.ceil(lowest + SIZE + 34)}`;
  return html`<svg class=${`map${alone ? " alone" : ""}${narrow ? " brief" : ""}`} viewBox=${view} role="img" aria-label=${described(nodes, links)}>
    ${links.map(({ one, other, state }) => {
      const from = at(one);
      const end = at(other);
      return html`<g key=${`${one.name} ${other.name}`}><line class=${`map-link ${state}`} x1=${from.x} y1=${from.y} x2=${end.x} y2=${end.y} />
        ${state === "cut" && html`<text class="map-cut" x=${(from.x + end.x) / 2} y=${(from.y + end.y) / 2} text-anchor="middle" dominant-baseline="central">✕</text>`}</g>`;
    })}
    ${nodes.map((node) => {
      const place = at(node);
      const stopped = node.running === false;
      const memory = node.mem_limit ? Math.min(1, node.mem_used / node.mem_limit) : 0;
      const upper = !alone && Math.cos(angles[node.name]) > 0.9;
      return html`<g key=${node.name} class=${`map-node ${stopped ? "stopped" : node.mem_alarm || node.disk_free_alarm ? "alarm" : "running"}`}>
        <circle class="map-disc" cx=${place.x} cy=${place.y} r=${SIZE} />
        ${!stopped && memory > 0 && html`<path class="map-memory" d=${arc(place, SIZE, 0, Math.max(0.02, memory * 2 * Math.PI - 0.001))} />`}
        <text class="map-count" x=${place.x} y=${place.y - (narrow ? 7 : 3)} text-anchor="middle" dominant-baseline="central">${stopped ? "✕" : count(masters[node.name]?.masters ?? 0)}</text>
        ${!stopped && html`<text class="map-unit" x=${place.x} y=${place.y + (narrow ? 15 : 13)} text-anchor="middle">${t("map.masters")}</text>`}
        <text class="map-name" x=${place.x} y=${upper ? place.y - SIZE - 8 : place.y + SIZE + 17} text-anchor="middle">${fitted(shortNode(node.name), narrow ? LETTERS.narrow : LETTERS.wide)}</text>
      </g>`;
    })}
  </svg>`;
}

// Masters and mirrors of each node, on one scale.
export function Shares({ nodes, masters }) {
  const most = Math.max(1, ...nodes.map((node) => (masters[node.name]?.masters ?? 0) + (masters[node.name]?.mirrors ?? 0)));
  return html`<div><ul class="legend"><li><span class="swatch accent" aria-hidden="true"></span>${t("cluster.masters")}</li><li><span class="swatch mirror" aria-hidden="true"></span>${t("cluster.mirrors")}</li></ul>
    <ul class="shares">${nodes.map((node) => {
      const mine = masters[node.name] || { masters: 0, mirrors: 0 };
      return html`<li key=${node.name}><span class="shares-name">${node.name}</span>
        <span class="shares-bar" aria-hidden="true"><span class="accent" style=${{ width: `${(mine.masters / most) * 100}%` }}></span><span class="mirror" style=${{ width: `${(mine.mirrors / most) * 100}%` }}></span></span>
        <span class="shares-text">${t("cluster.share", { masters: count(mine.masters), mirrors: count(mine.mirrors) })}</span></li>`;
    })}</ul></div>`;
}
