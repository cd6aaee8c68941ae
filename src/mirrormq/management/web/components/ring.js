// Drawing of a queue's ring: the master on top, data flowing clockwise from member to member.
//
// The drawing is one image for screen readers; the list beside it has the same information as text.
import { count, fitted, percent, shortNode } from "../lib/format.js";
import { Fragment, html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Badge, Progress } from "./basics.js";
import { arc, point, useAngles, useNarrow } from "./circle.js";

const CENTRE = { x: 200, y: 172 };
const RADIUS = 112;
const MARKS = { master: "★", synchronised: "✓", syncing: "↻", joining: "+", behind: "…", down: "✕" };
const TONES = { master: "accent", synchronised: "good", syncing: "warn", joining: "warn", behind: "warn", down: "bad" };
const LETTERS = { wide: 15, brief: 10 }; // Letters of a name beside its disc.
const FLOWS = new Set(["master", "synchronised"]);

// Short state texts for the drawing.
function state(member) {
  if (member.state === "syncing") return t("ring.syncing", { part: percent(member.total ? member.done / member.total : 0) });
  return t(`ring.${member.state}`);
}

export function standing(member) {
  return member.untrusted ? `${placed(member)}, ${t("ring.untrusted")}` : placed(member);
}

function placed(member) {
  if (member.state !== "behind" && member.state !== "joining") return state(member);
  if (member.lacks > 0) return `${state(member)}, ${t("ring.lacks", { n: count(member.lacks) })}`;
  return member.lag > 0 ? `${state(member)}, ${t("ring.lag", { n: count(member.lag) })}` : state(member);
}

function described(ring) {
  const members = ring.members.map((member) => `${member.name}: ${standing(member)}`).join("; ");
  return ring.members.length > 1 ? t("ring.described", { n: ring.members.length, members }) : t("ring.describedOne", { members });
}

function Flow({ ring, angles, size, flowing }) {
  const names = ring.members.map((member) => member.name);
  if (names.length === 1) {
    return html`<path class="ring-arc alone" d=${arc(CENTRE, RADIUS, 0.28, 2 * Math.PI - 0.28)} />`;
  }
  const trim = (size + 6) / RADIUS;
  return ring.members.map((member, index) => {
    const next = ring.members[(index + 1) % names.length];
    const from = angles[member.name];
    let end = angles[next.name];
    while (end <= from + 0.01) end += 2 * Math.PI;
    if (end - trim - 0.05 <= from + trim) return null;
    const whole = FLOWS.has(member.state) && FLOWS.has(next.state);
    const broken = member.state === "down" || next.state === "down";
    return html`<path key=${member.name} class=${`ring-arc ${broken ? "broken" : whole ? "whole" : "filling"}${flowing && !broken ? " flowing" : ""}`}
      d=${arc(CENTRE, RADIUS, from + trim, end - trim - 0.05)} marker-end=${`url(#arrow-${broken ? "broken" : whole ? "whole" : "filling"})`} />`;
  });
}

// Labels are outside the ring, where no arc passes.
function label(angle, size, brief) {
  const at = point(CENTRE, RADIUS + size + 12, angle);
  const side = Math.sin(angle);
  if (Math.abs(side) < 0.3) {
    const above = Math.cos(angle) > 0;
    return { x: at.x, y: above ? at.y - (brief ? 0 : 14) : at.y + 10, anchor: "middle" };
  }
  return { x: at.x, y: at.y + (brief ? 5 : 0), anchor: side > 0 ? "start" : "end" };
}

// Lower edge of the drawing: below the circle, or below the label of the lowest member.
function bottom(members, size) {
  const labels = Array.from({ length: members }, (_, index) => label((index / members) * 2 * Math.PI, size, false).y + 24);
  return Math.ceil(Math.max(CENTRE.y + RADIUS + 12, ...labels));
}

function Member({ member, angle, size, brief }) {
  const at = point(CENTRE, RADIUS, angle);
  const part = member.total ? Math.min(1, member.done / member.total) : 0;
  const text = label(angle, member.state === "syncing" ? size + 6 : size, brief);
  return html`<g class=${`ring-member ${member.state}`}>
    <circle class="ring-disc" cx=${at.x} cy=${at.y} r=${size} />
    ${member.state === "syncing" && html`<${Fragment}><circle class="ring-progress-ground" cx=${at.x} cy=${at.y} r=${size + 6} />
      <path class="ring-progress" d=${arc(at, size + 6, 0, Math.max(0.01, part * 2 * Math.PI - 0.001))} /><//>`}
    <text class="ring-mark" x=${at.x} y=${at.y} text-anchor="middle" dominant-baseline="central">${MARKS[member.state]}</text>
    <text class="ring-name" x=${text.x} y=${text.y} text-anchor=${text.anchor}>${fitted(shortNode(member.name), brief ? LETTERS.brief : LETTERS.wide)}</text>
    ${!brief && html`<text class="ring-state" x=${text.x} y=${text.y + 16} text-anchor=${text.anchor}>${state(member)}</text>`}
  </g>`;
}

export function RingDrawing({ ring, flowing }) {
  const names = ring.members.map((member) => member.name);
  const angles = useAngles(names);
  const narrow = useNarrow();
  const alone = names.length === 1;
  const brief = narrow || names.length > 6;
  const size = names.length > 6 ? 14 : 22;
  const height = bottom(names.length, size);
  const view = alone ? "60 0 280 300" : brief ? `-60 0 520 ${height}` : `-95 0 590 ${height}`;
  const arrow = (name) => html`<marker id=${`arrow-${name}`} class=${`ring-arrow ${name}`} viewBox="0 0 10 10" refX="5" refY="5" markerWidth="4.5" markerHeight="4.5" orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" /></marker>`;
  return html`<svg class=${`ring${alone ? " alone" : ""}${brief ? " brief" : ""}`} viewBox=${view} role="img" aria-label=${described(ring)}>
    <defs>${arrow("whole")}${arrow("filling")}${arrow("broken")}</defs>
    <circle class="ring-ground" cx=${CENTRE.x} cy=${CENTRE.y} r=${RADIUS} />
    <${Flow} ring=${ring} angles=${angles} size=${size} flowing=${flowing} />
    ${ring.epoch !== null && html`<${Fragment}><text class="ring-epoch-label" x=${CENTRE.x} y=${CENTRE.y - 16} text-anchor="middle">${t("ring.epoch")}</text>
      <text class="ring-epoch" x=${CENTRE.x} y=${CENTRE.y + 18} text-anchor="middle">${count(ring.epoch)}</text><//>`}
    ${ring.epoch === null && html`<text class="ring-epoch-label" x=${CENTRE.x} y=${CENTRE.y + 4} text-anchor="middle">${
      alone ? t("ring.alone") : t("ring.members", { n: names.length })}</text>`}
    ${ring.members.map((member) => html`<${Member} key=${member.name} member=${member} angle=${angles[member.name]} size=${size} brief=${brief} />`)}
  </svg>`;
}

export function RingMembers({ ring }) {
  return html`<ol class="ring-list">
    ${ring.members.map((member) => html`<li key=${member.name} class=${member.state}>
      <div><span class="ring-list-name">${member.name}</span> <${Badge} tone=${TONES[member.state]}>${MARKS[member.state]} ${t(`ring.${member.state === "syncing" ? "syncingShort" : member.state}`)}<//></div>
      ${member.state === "syncing" && html`<${Progress} label=${t("ring.progressOf", { node: member.name })} done=${member.done} total=${member.total} />
        <small class="soft">${t("ring.doneOf", { done: count(member.done), total: count(member.total) })}</small>`}
      ${member.untrusted && html`<small class="bad-text">${t("ring.untrusted")}</small>`}
      ${member.lacks > 0 && html`<small class="soft">${t("ring.lacks", { n: count(member.lacks) })}</small>`}
      ${member.lag > 0 && html`<small class="soft">${t("ring.lag", { n: count(member.lag) })}</small>`}
    </li>`)}
    ${ring.waitsFor.map((name) => html`<li key=${`waits-${name}`} class="down"><div><span class="ring-list-name">${name}</span> <${Badge} tone="bad">${t("ring.waitsFor")}<//></div></li>`)}
    ${ring.recoverable.map((name) => html`<li key=${`recoverable-${name}`} class="down"><div><span class="ring-list-name">${name}</span> <${Badge}>${t("ring.recoverable")}<//></div></li>`)}
  </ol>`;
}
