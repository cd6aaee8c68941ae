// Table of nodes, and notices about their problems.
import { bytes, count, duration } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { Badge, Meter, Notice } from "./basics.js";
import { Table } from "./table.js";

export function NodeTable({ nodes, masters }) {
  const running = (cell) => (node) => (node.running === false ? html`<span class="soft">–</span>` : cell(node));
  return html`<${Table} caption=${t("node.caption")} rows=${nodes} keyOf=${(node) => node.name} columns=${[
    { id: "name", label: t("common.name"), head: true, cell: (node) => html`<a href=${to("nodes", node.name)}>${node.name}</a>` },
    { id: "state", label: t("common.state"), cell: (node) => (node.running === false
      ? html`<${Badge} tone="bad">${t("node.stopped")}<//>`
      : html`<${Badge} tone="good">${t("node.running")}<//>${node.journal_fault && html` <${Badge} tone="bad">${t(`node.fault.${node.journal_fault}`)}<//>`}`) },
    masters && { id: "masters", label: t("cluster.masters"), numeric: true, cell: (node) => count(masters[node.name]?.masters ?? 0) },
    masters && { id: "mirrors", label: t("cluster.mirrors"), numeric: true, cell: (node) => count(masters[node.name]?.mirrors ?? 0) },
    { id: "memory", label: t("node.memory"), cell: running((node) => html`<${Meter} label=${t("node.memoryOf", { node: node.name })} used=${node.mem_used} limit=${node.mem_limit} alarm=${node.mem_alarm} />`) },
    { id: "disk", label: t("node.disk"), cell: running((node) => html`<${Disk} node=${node} />`) },
    { id: "sockets", label: t("node.connections"), numeric: true, cell: running((node) => count(node.sockets_used)) },
    { id: "handles", minor: true, label: t("node.handles"), numeric: true, cell: running((node) => count(node.fd_used)) },
    { id: "uptime", label: t("node.uptime"), cell: running((node) => duration(node.uptime)) },
  ]} />`;
}

// Free space is shown as a number with its limit: a filled bar would suggest a problem.
function Disk({ node }) {
  return html`<span class=${node.disk_free_alarm ? "bad-text" : ""}>${t("node.diskFree", { free: bytes(node.disk_free), limit: bytes(node.disk_free_limit) })}</span>`;
}

// Alarms, stopped nodes and partitions, which an operator must see first.
export function Troubles({ nodes }) {
  const found = [];
  const stopped = nodes.filter((node) => node.running === false);
  const cut = nodes.filter((node) => (node.partitions || []).length);
  if (cut.length) {
    found.push(html`<${Notice} key="cut" tone="bad" title=${t("trouble.partition")}><ul>${cut.map((node) => html`<li key=${node.name}>${
      t("trouble.partitionOf", { node: node.name, others: node.partitions.join(", ") })}</li>`)}</ul><//>`);
  }
  if (stopped.length) found.push(html`<${Notice} key="stopped" tone="bad" title=${t("trouble.stopped")}>${stopped.map((node) => node.name).join(", ")}<//>`);
  const faulty = nodes.filter((node) => node.journal_fault);
  if (faulty.length) {
    found.push(html`<${Notice} key="journal" tone="bad" title=${t("trouble.journal")}><ul>${faulty.map((node) => html`<li key=${node.name}>${
      t("trouble.journalOf", { node: node.name, fault: t(`node.fault.${node.journal_fault}`) })}</li>`)}</ul><//>`);
  }
  for (const [flag, key] of [["mem_alarm", "memory"], ["disk_free_alarm", "disk"]]) {
    const raised = nodes.filter((node) => node[flag]);
    if (raised.length) {
      found.push(html`<${Notice} key=${key} tone="bad" title=${t(`trouble.${key}`)}>${t("trouble.blocked", { nodes: raised.map((node) => node.name).join(", ") })}<//>`);
    }
  }
  return found.length ? html`<div class="troubles">${found}</div>` : null;
}
