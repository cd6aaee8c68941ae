// Bindings of a queue or an exchange: list, add, remove.
import { path, post, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { Arguments, Refusal } from "./basics.js";
import { confirmed } from "./dialog.js";
import { ArgumentsField, argumentsOf } from "./arguments_field.js";
import { Field, Folded, Form } from "./forms.js";
import { act, say } from "./notices.js";
import { Table } from "./table.js";

const kindPart = (kind) => (kind === "queue" ? "q" : "e");

function End({ vhost, kind, name }) {
  if (kind === "exchange" && name === "") return html`<span class="soft">${t("exchange.default")}</span>`;
  return html`<a class="name" href=${to(kind === "queue" ? "queues" : "exchanges", vhost, name)}>${name}</a>`;
}

export function BindingTable({ where, vhost, showSource, showDestination, caption, canUnbind = true }) {
  const { data, error, reload } = useFetch(where);
  const unbind = async (row) => {
    if (!await confirmed(t("binding.unbind"), t("binding.unbindText", { from: row.source, to: row.destination, key: row.routing_key }), t("binding.unbind"))) return;
    const at = path("bindings", vhost, "e", row.source, kindPart(row.destination_type), row.destination, row.properties_key);
    if (await act(remove(at), t("binding.unbound"))) reload();
  };
  return html`<${Refusal} error=${error} />
    <${Table} caption=${caption} rows=${data} empty=${t("binding.none")}
      keyOf=${(row) => JSON.stringify([row.source, row.destination_type, row.destination, row.properties_key])} columns=${[
      showSource && { id: "source", label: t("binding.from"), head: true, cell: (row) => html`<${End} vhost=${vhost} kind="exchange" name=${row.source} />` },
      showDestination && { id: "destination", label: t("binding.to"), head: true, cell: (row) => html`<${End} vhost=${vhost} kind=${row.destination_type} name=${row.destination} /> <small class="soft">${t(`kind.${row.destination_type}`)}</small>` },
      { id: "key", label: t("common.routingKey"), cell: (row) => html`<code>${row.routing_key}</code>` },
      { id: "arguments", label: t("common.arguments"), cell: (row) => html`<${Arguments} value=${row.arguments} />` },
      canUnbind && { id: "unbind", label: t("common.actions"), cell: (row) => row.source !== "" && html`<button type="button" class="button quiet" onClick=${() => unbind(row)}>${t("binding.unbind")}</button>` },
    ]} />`;
}

// `fixed` is the given end: {source} or {kind, destination}.
export function BindForm({ vhost, fixed, onBound }) {
  const bind = async (fields) => {
    try {
      const end = { source: fixed.source ?? fields.source, kind: fixed.kind ?? fields.kind, destination: fixed.destination ?? fields.destination };
      const body = { routing_key: fields.key, arguments: argumentsOf(fields, "arguments") };
      const bound = await act(post(path("bindings", vhost, "e", end.source, kindPart(end.kind), end.destination), body), t("binding.bound"));
      if (bound) onBound?.();
      return Boolean(bound);
    } catch (error) {
      say(error.message, "bad");
      return false;
    }
  };
  return html`<${Folded} title=${t("binding.add")}><${Form} label=${t("binding.add")} button=${t("binding.bind")} onSubmit=${bind}>
    ${fixed.source === undefined && html`<${Field} label=${t("binding.fromExchange")} name="source" required />`}
    ${fixed.destination === undefined && html`<${Field} label=${t("binding.toKind")} name="kind" options=${[["queue", t("kind.queue")], ["exchange", t("kind.exchange")]]} />
      <${Field} label=${t("binding.to")} name="destination" required />`}
    <${Field} label=${t("common.routingKey")} name="key" />
    <${ArgumentsField} label=${t("common.arguments")} name="arguments" />
  <//><//>`;
}
