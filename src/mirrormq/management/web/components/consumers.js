// Table of consumers, of a queue or of a channel.
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { Arguments } from "./basics.js";
import { Table } from "./table.js";

const answer = (value) => (value ? t("common.yes") : t("common.no"));

export function ConsumerTable({ rows, showQueue }) {
  return html`<${Table} caption=${t("overview.consumers")} rows=${rows} empty=${t("queue.noConsumers")} keyOf=${(row) => `${row.channel_details?.name} ${row.consumer_tag}`} columns=${[
    { id: "tag", label: t("consumer.tag"), head: true, cell: (row) => html`<code class="name">${row.consumer_tag}</code>` },
    showQueue && { id: "queue", label: t("queue.name"), cell: (row) => html`<a class="name" href=${to("queues", row.queue.vhost, row.queue.name)}>${row.queue.name}</a>` },
    !showQueue && { id: "channel", label: t("consumer.channel"), cell: (row) => row.channel_details && html`<a class="name" href=${to("channels", row.channel_details.name)}>${row.channel_details.name}</a>` },
    { id: "ack", label: t("consumer.ack"), cell: (row) => answer(row.ack_required) },
    { id: "prefetch", label: t("channel.prefetch"), numeric: true, cell: (row) => count(row.prefetch_count) },
    { id: "active", label: t("consumer.active"), cell: (row) => answer(row.active) },
    { id: "exclusive", label: t("feature.exclusive"), cell: (row) => answer(row.exclusive) },
    { id: "arguments", minor: true, label: t("common.arguments"), cell: (row) => html`<${Arguments} value=${row.arguments} />` },
  ]} />`;
}
