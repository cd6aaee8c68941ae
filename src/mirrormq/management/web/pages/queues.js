// Queues page: a live list, and a form that declares a queue.
import { Badge, State } from "../components/basics.js";
import { ArgumentsField, argumentsOf } from "../components/arguments_field.js";
import { Check, Field, Folded, Form } from "../components/forms.js";
import { Listing, useListing } from "../components/listing.js";
import { act, say } from "../components/notices.js";
import { VhostField } from "../components/vhosts.js";
import { path, put } from "../lib/api.js";
import { bytes, count, percent, shortNode } from "../lib/format.js";
import { QUEUE_HINTS } from "../lib/hints.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { keyOf, live } from "../lib/live.js";
import { rateOf } from "../lib/rates.js";
import { isWhole, ringOf } from "../lib/ring.js";
import { useOwnVhosts } from "../lib/rights.js";
import { to } from "../lib/router.js";
import { useStore } from "../lib/store.js";
import { Features } from "./exchanges.js";

const SECONDS_WHEN_BUSY = 5; // More queues changed than one event contains: fetch the visible rows again.

function Declare({ onDone, own }) {
  const nodes = (useStore(live, (value) => value.nodes) || []).filter((node) => node.running !== false).map((node) => node.name);
  const declare = async (fields) => {
    try {
      const body = {
        durable: fields.durable === "on", auto_delete: fields.auto_delete === "on", arguments: argumentsOf(fields, "arguments"),
        ...(fields.node && { node: fields.node }),
      };
      const done = await act(put(path("queues", fields.vhost, fields.name), body), t("queue.declared", { name: fields.name }));
      if (done) onDone();
      return Boolean(done);
    } catch (error) {
      say(error.message, "bad");
      return false;
    }
  };
  return html`<${Folded} title=${t("queue.add")}><${Form} label=${t("queue.add")} button=${t("queue.declare")} onSubmit=${declare}>
    <${VhostField} vhosts=${own} />
    <${Field} label=${t("common.name")} name="name" required />
    ${nodes.length > 1 && html`<${Field} label=${t("common.node")} name="node" hint=${t("queue.nodeHint")} options=${[["", t("queue.nodeAny")], ...nodes]} />`}
    <div class="checks"><${Check} label=${t("feature.durable")} name="durable" checked /><${Check} label=${t("feature.autoDelete")} name="auto_delete" /></div>
    <${ArgumentsField} label=${t("common.arguments")} name="arguments" hints=${QUEUE_HINTS} />
  <//><//>`;
}

// Holders of a queue: the master's name, the number of mirrors, and a warning if one is not synchronised.
function Holders({ row }) {
  const ring = ringOf(row, live.value.nodes);
  const mirrors = ring.members.length - 1;
  const title = ring.members.map((member) => `${member.name}: ${t(`ring.${member.state === "syncing" ? "syncingShort" : member.state}`)}`).join("\n");
  return html`<span title=${title}>${shortNode(ring.members[0]?.name ?? "")}</span>${
    mirrors > 0 && html` <${Badge} tone=${isWhole(ring) ? "good" : "warn"} title=${title}>+${mirrors}<//>`}`;
}

export function Queues() {
  const more = useStore(live, (value) => Math.floor(value.more / SECONDS_WHEN_BUSY));
  const { queues } = useStore(live);
  const own = useOwnVhosts();
  const listing = useListing("queues", { every: more ? SECONDS_WHEN_BUSY : 0 });
  const rows = (listing.data?.items || []).map((row) => {
    const heard = queues.get(keyOf(row));
    return heard && heard.tick > listing.tick ? { ...row, ...heard.row } : row;
  });
  return html`<h1>${t("place.queues")}</h1>
    <${Listing} listing=${listing} rows=${rows} caption=${t("place.queues")} keyOf=${keyOf} empty=${t("queues.none")} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<a class="name" href=${to("queues", row.vhost, row.name)}>${row.name}</a>` },
      { id: "vhost", label: t("common.vhost"), sort: "vhost", cell: (row) => row.vhost },
      { id: "node", short: true, label: t("queue.holders"), sort: "node", cell: (row) => html`<${Holders} row=${row} />` },
      { id: "features", minor: true, label: t("common.features"), cell: (row) => html`<${Features} row=${row} />${row.policy && html` <${Badge} tone="accent" title=${t("common.policy")}>${row.policy}<//>`}` },
      { id: "state", label: t("common.state"), sort: "state", cell: (row) => html`<${State} value=${row.state} />` },
      { id: "total", optional: true, label: t("number.messages"), sort: "messages", numeric: true, cell: (row) => count(row.messages) },
      { id: "ready", label: t("number.messages_ready"), sort: "messages_ready", numeric: true, cell: (row) => count(row.messages_ready) },
      { id: "unacked", label: t("number.messages_unacknowledged"), sort: "messages_unacknowledged", numeric: true, cell: (row) => count(row.messages_unacknowledged) },
      { id: "consumers", minor: true, label: t("overview.consumers"), sort: "consumers", numeric: true, cell: (row) => count(row.consumers) },
      { id: "capacity", optional: true, label: t("queue.capacity"), sort: "consumer_utilisation", numeric: true, cell: (row) => percent(row.consumer_utilisation) },
      { id: "bytes", optional: true, label: t("queue.bytes"), sort: "message_bytes", numeric: true, cell: (row) => bytes(row.message_bytes) },
      { id: "bytesReady", optional: true, label: t("queue.bytesReady"), sort: "message_bytes_ready", numeric: true, cell: (row) => bytes(row.message_bytes_ready) },
      { id: "bytesUnacked", optional: true, label: t("queue.bytesUnacked"), sort: "message_bytes_unacknowledged", numeric: true, cell: (row) => bytes(row.message_bytes_unacknowledged) },
      { id: "persistent", optional: true, label: t("queue.persistent"), sort: "messages_persistent", numeric: true, cell: (row) => count(row.messages_persistent) },
      { id: "inMemory", optional: true, label: t("queue.inMemory"), sort: "messages_ram", numeric: true, cell: (row) => count(row.messages_ram) },
      { id: "bytesInMemory", optional: true, label: t("queue.bytesInMemory"), sort: "message_bytes_ram", numeric: true, cell: (row) => bytes(row.message_bytes_ram) },
      { id: "bytesPersistent", optional: true, label: t("queue.bytesPersistent"), sort: "message_bytes_persistent", numeric: true, cell: (row) => bytes(row.message_bytes_persistent) },
      { id: "memory", optional: true, label: t("node.memory"), sort: "memory", numeric: true, cell: (row) => bytes(row.memory) },
      { id: "publish", label: t("number.publish"), sort: "message_stats.publish_details.rate", numeric: true, cell: (row) => rateOf(row, "publish") },
      { id: "deliver", label: t("number.deliver_get"), sort: "message_stats.deliver_get_details.rate", numeric: true, cell: (row) => rateOf(row, "deliver_get") },
      { id: "ack", optional: true, label: t("number.ack"), sort: "message_stats.ack_details.rate", numeric: true, cell: (row) => rateOf(row, "ack") },
      { id: "redeliver", optional: true, label: t("number.redeliver"), sort: "message_stats.redeliver_details.rate", numeric: true, cell: (row) => rateOf(row, "redeliver") },
    ]} />
    ${own?.length > 0 && html`<${Declare} onDone=${listing.reload} own=${own} />`}`;
}
