// Basic components of all pages.
import { sentence } from "../lib/api.js";
import { bytes, NOTHING, percent } from "../lib/format.js";
import { html } from "../lib/html.js";
import { known, t } from "../lib/i18n.js";

export function Panel({ title, actions, children, wide, id }) {
  return html`<section class=${`panel${wide ? " wide" : ""}`} aria-labelledby=${id}>
    ${title && html`<header class="panel-head"><h2 id=${id}>${title}</h2>${actions && html`<div class="panel-actions">${actions}</div>`}</header>`}
    ${children}
  </section>`;
}

export function Stat({ label, value, unit, tone, href }) {
  const shown = html`${value}${unit && value !== NOTHING && html`<small>${unit}</small>`}`;
  return html`<div class="stat"><dt>${tone && html`<span class=${`swatch ${tone}`} aria-hidden="true"></span>`}${label}</dt>
    <dd>${href ? html`<a class="stat-link" href=${href} aria-label=${`${label}: ${value}`}>${shown}</a>` : shown}</dd></div>`;
}

export const Stats = ({ children }) => html`<dl class="stats">${children}</dl>`;

export const Badge = ({ tone = "plain", title, children }) => html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;

const STATE_TONES = { running: "good", idle: "good", flow: "warn", starting: "warn", blocking: "warn", syncing: "warn", silent: "warn", done: "accent", blocked: "bad" };

// State badge: known states are translated; a state that is neither good nor busy is shown as bad.
export function State({ value }) {
  if (!value) return null;
  const word = known(`state.${value}`) ? t(`state.${value}`) : value;
  return html`<${Badge} tone=${STATE_TONES[value] || "bad"}>${word}<//>`;
}

export function Empty({ title, children, drawing }) {
  return html`<div class="empty">${drawing}<p class="empty-title">${title}</p>${children && html`<div class="empty-text">${children}</div>`}</div>`;
}

export function Refusal({ error }) {
  if (!error) return null;
  return html`<p class="refusal" role="alert">${error.status === 404 ? t("error.gone") : sentence(error)}</p>`;
}

// Usage bar with the same information as text.
export function Meter({ label, used, limit, format = bytes, alarm }) {
  const part = limit > 0 ? Math.min(1, used / limit) : 0;
  const tone = alarm ? "bad" : part > 0.85 ? "warn" : "good";
  return html`<div class="meter">
    <div class=${`meter-bar ${tone}`} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100"
      aria-valuenow=${Math.round(part * 100)} aria-valuetext=${`${format(used)} / ${format(limit)}`}>
      <span style=${{ width: `${Math.max(1, part * 100)}%` }}></span></div>
    <small>${format(used)} <span class="soft">/ ${format(limit)}</span></small>
  </div>`;
}

export function Progress({ label, done, total }) {
  const part = total > 0 ? Math.min(1, done / total) : 0;
  return html`<div class="progress"><progress max="1" value=${part} aria-label=${label}>${percent(part)}</progress><small>${percent(part)}</small></div>`;
}

export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Notice({ tone = "warn", title, children }) {
  return html`<div class=${`notice ${tone}`} role=${tone === "bad" ? "alert" : "status"}><strong>${title}</strong>${children && html`<div>${children}</div>`}</div>`;
}

// Arguments and definitions: `x-max-length = 10`.
export function Arguments({ value }) {
  const entries = Object.entries(value || {});
  if (!entries.length) return html`<span class="soft">${t("common.none")}</span>`;
  return html`<ul class="arguments">${entries.map(([name, inner]) => html`<li key=${name}><code>${name}</code> <span class="soft">=</span> <code>${
    typeof inner === "string" ? inner : JSON.stringify(inner)}</code></li>`)}</ul>`;
}
