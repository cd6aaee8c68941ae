// Exchanges page: the list, and a form that declares an exchange.
import { Badge } from "../components/basics.js";
import { ArgumentsField, argumentsOf } from "../components/arguments_field.js";
import { Check, Field, Folded, Form } from "../components/forms.js";
import { Listing, useListing } from "../components/listing.js";
import { act, say } from "../components/notices.js";
import { VhostField } from "../components/vhosts.js";
import { path, put } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { EXCHANGE_HINTS } from "../lib/hints.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { rateOf } from "../lib/rates.js";
import { useOwnVhosts } from "../lib/rights.js";
import { to } from "../lib/router.js";

// Short names of arguments, those of RabbitMQ's page.
const ARGUMENTS = {
  "alternate-exchange": "AE", "x-message-ttl": "TTL", "x-expires": "Exp", "x-max-length": "Lim", "x-max-length-bytes": "Lim B", "x-overflow": "Ovfl",
  "x-dead-letter-exchange": "DLX", "x-dead-letter-routing-key": "DLK", "x-queue-master-locator": "ML", "x-max-priority": "Pri", "x-single-active-consumer": "SAC",
};

export function Features({ row }) {
  const marks = [row.durable && "durable", row.auto_delete && "autoDelete", row.internal && "internal", row.exclusive && "exclusive"].filter(Boolean);
  const given = Object.entries(row.arguments || {});
  const rest = given.filter(([name]) => !(name in ARGUMENTS));
  return html`${marks.map((mark) => html`<${Badge} key=${mark} title=${t(`feature.${mark}`)}>${t(`feature.${mark}Short`)}<//>`)}
    ${given.filter(([name]) => name in ARGUMENTS).map(([name, value]) => html`<${Badge} key=${name} title=${`${name}: ${value}`}>${ARGUMENTS[name]}<//>`)}
    ${rest.length > 0 && html`<${Badge} title=${rest.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join("\n")}>Args<//>`}`;
}

function Declare({ onDone, own }) {
  const overview = useFetch("overview", { columns: "exchange_types" });
  const types = (overview.data?.exchange_types || []).map((type) => type.name);
  const declare = async (fields) => {
    try {
      const body = {
        type: fields.type, durable: fields.durable === "on", auto_delete: fields.auto_delete === "on", internal: fields.internal === "on",
        arguments: argumentsOf(fields, "arguments"),
      };
      const done = await act(put(path("exchanges", fields.vhost, fields.name), body), t("exchange.declared", { name: fields.name }));
      if (done) onDone();
      return Boolean(done);
    } catch (error) {
      say(error.message, "bad");
      return false;
    }
  };
  return html`<${Folded} title=${t("exchange.add")}><${Form} label=${t("exchange.add")} button=${t("exchange.declare")} onSubmit=${declare}>
    <${VhostField} vhosts=${own} />
    <${Field} label=${t("common.name")} name="name" required />
    <${Field} label=${t("common.type")} name="type" options=${types.length ? types : ["direct", "fanout", "topic", "headers"]} />
    <div class="checks"><${Check} label=${t("feature.durable")} name="durable" checked /><${Check} label=${t("feature.autoDelete")} name="auto_delete" /><${Check} label=${t("feature.internal")} name="internal" /></div>
    <${ArgumentsField} label=${t("common.arguments")} name="arguments" hints=${EXCHANGE_HINTS} />
  <//><//>`;
}

export function Exchanges() {
  const own = useOwnVhosts();
  const listing = useListing("exchanges");
  return html`<h1>${t("place.exchanges")}</h1>
    <${Listing} listing=${listing} caption=${t("place.exchanges")} keyOf=${(row) => `${row.vhost} ${row.name}`} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<a class="name" href=${to("exchanges", row.vhost, row.name || "amq.default")}>${row.name || t("exchange.default")}</a>` },
      { id: "vhost", label: t("common.vhost"), sort: "vhost", cell: (row) => row.vhost },
      { id: "type", label: t("common.type"), sort: "type", cell: (row) => html`<${Badge} tone="accent">${row.type}<//>` },
      { id: "features", label: t("common.features"), cell: (row) => html`<${Features} row=${row} />` },
      { id: "policy", label: t("common.policy"), sort: "policy", cell: (row) => row.policy || "" },
      { id: "in", label: t("exchange.in"), numeric: true, sort: "message_stats.publish_in_details.rate", cell: (row) => rateOf(row, "publish_in") },
      { id: "out", label: t("exchange.out"), numeric: true, sort: "message_stats.publish_out_details.rate", cell: (row) => rateOf(row, "publish_out") },
    ]} />
    ${own?.length > 0 && html`<${Declare} onDone=${listing.reload} own=${own} />`}`;
}
