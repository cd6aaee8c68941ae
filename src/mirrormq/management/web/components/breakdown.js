// Message rates between two objects: of an exchange, a queue or a channel with its counterparts.
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { rateOf } from "../lib/rates.js";
import { to } from "../lib/router.js";
import { Panel } from "./basics.js";
import { Table } from "./table.js";

function Counterpart({ row }) {
  if (row.channel_details) return html`<a class="name" href=${to("channels", row.channel_details.name)}>${row.channel_details.name}</a>`;
  if (row.queue) return html`<a class="name" href=${to("queues", row.queue.vhost, row.queue.name)}>${row.queue.name}</a>`;
  return html`<a class="name" href=${to("exchanges", row.exchange.vhost, row.exchange.name || "amq.default")}>${row.exchange.name || t("exchange.default")}</a>`;
}

const keyOf = (row) => row.channel_details?.name ?? JSON.stringify(row.queue ?? row.exchange);

function Part({ title, of, rows, names }) {
  const column = (name) => ({
    id: name, label: t(`number.${name}`), numeric: true,
    cell: (row) => html`<span title=${count(row.stats?.[name] ?? 0)}>${rateOf({ message_stats: row.stats }, name)}</span>`,
  });
  return html`<h3>${title}</h3><${Table} caption=${title} rows=${rows} keyOf=${keyOf} empty=${t("breakdown.none")} columns=${[
    { id: "of", label: of, head: true, cell: (row) => html`<${Counterpart} row=${row} />` }, ...names.map(column),
  ]} />`;
}

// parts: [[title, heading of the counterpart, rows, names of rates]]
export function Breakdown({ parts }) {
  const mode = live.value.totals?.rates_mode;
  if (mode !== "detailed") return mode === "basic" ? html`<${Panel} id="breakdown" title=${t("breakdown.title")} wide><p class="soft">${t("breakdown.basic")}</p><//>` : null;
  return html`<${Panel} id="breakdown" title=${t("breakdown.title")} wide>${parts.map(([title, of, rows, names]) => html`<${Part} key=${title} title=${title} of=${of} rows=${rows || []} names=${names} />`)}<//>`;
}
