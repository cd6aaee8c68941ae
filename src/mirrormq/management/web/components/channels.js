// Table of channels, for the list of all and for one connection.
import { count, shortNode } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { rateOf } from "../lib/rates.js";
import { to } from "../lib/router.js";
import { Badge, State } from "./basics.js";
import { Table } from "./table.js";

function modes(row) {
  const found = [row.confirm && "confirm", row.transactional && "tx"].filter(Boolean);
  return found.map((mode) => html` <${Badge} key=${mode} title=${t("channel.mode")}>${mode}<//>`);
}

export const channelColumns = () => [
  { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<a class="name" href=${to("channels", row.name)}>${row.name}</a>${modes(row)}` },
  { id: "user", label: t("common.user"), sort: "user", cell: (row) => row.user },
  { id: "vhost", label: t("common.vhost"), sort: "vhost", cell: (row) => row.vhost },
  { id: "consumers", label: t("overview.consumers"), sort: "consumer_count", numeric: true, cell: (row) => count(row.consumer_count) },
  { id: "prefetch", minor: true, label: t("channel.prefetch"), sort: "prefetch_count", numeric: true, cell: (row) => count(row.prefetch_count) },
  { id: "unacked", label: t("channel.unacked"), sort: "messages_unacknowledged", numeric: true, cell: (row) => count(row.messages_unacknowledged) },
  { id: "unconfirmed", minor: true, label: t("channel.unconfirmed"), sort: "messages_unconfirmed", numeric: true, cell: (row) => count(row.messages_unconfirmed) },
  { id: "state", optional: true, label: t("common.state"), sort: "state", cell: (row) => html`<${State} value=${row.state} />` },
  { id: "node", optional: true, label: t("common.node"), sort: "node", cell: (row) => shortNode(row.node) },
  { id: "uncommitted", optional: true, label: t("channel.uncommitted"), sort: "messages_uncommitted", numeric: true, cell: (row) => count(row.messages_uncommitted) },
  { id: "acksUncommitted", optional: true, label: t("channel.acksUncommitted"), sort: "acks_uncommitted", numeric: true, cell: (row) => count(row.acks_uncommitted) },
  { id: "publish", label: t("number.publish"), sort: "message_stats.publish_details.rate", numeric: true, cell: (row) => rateOf(row, "publish") },
  { id: "confirm", minor: true, label: t("channel.confirm"), sort: "message_stats.confirm_details.rate", numeric: true, cell: (row) => rateOf(row, "confirm") },
  { id: "deliver", label: t("number.deliver_get"), sort: "message_stats.deliver_get_details.rate", numeric: true, cell: (row) => rateOf(row, "deliver_get") },
  { id: "ack", minor: true, label: t("channel.ack"), sort: "message_stats.ack_details.rate", numeric: true, cell: (row) => rateOf(row, "ack") },
  { id: "redeliver", optional: true, label: t("number.redeliver"), sort: "message_stats.redeliver_details.rate", numeric: true, cell: (row) => rateOf(row, "redeliver") },
  { id: "returned", optional: true, label: t("number.return_unroutable"), sort: "message_stats.return_unroutable_details.rate", numeric: true, cell: (row) => rateOf(row, "return_unroutable") },
  { id: "dropped", optional: true, label: t("number.drop_unroutable"), sort: "message_stats.drop_unroutable_details.rate", numeric: true, cell: (row) => rateOf(row, "drop_unroutable") },
];

export function ChannelTable({ rows }) {
  return html`<${Table} caption=${t("place.channels")} rows=${rows} keyOf=${(row) => row.name} empty=${t("channels.none")} columns=${channelColumns().filter((column) => !column.optional)} />`;
}
