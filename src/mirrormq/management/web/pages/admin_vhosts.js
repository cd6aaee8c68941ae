// Vhosts page.
import { Badge, Panel, State } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Check, Field, Folded, Form } from "../components/forms.js";
import { Listing } from "../components/listing.js";
import { act } from "../components/notices.js";
import { useWholeListing } from "../components/whole_listing.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { byteRate, count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { rateOf } from "../lib/rates.js";
import { to } from "../lib/router.js";

export function Vhosts() {
  const answer = useFetch("vhosts", {}, { every: 2 });
  const { reload } = answer;
  const listing = useWholeListing("vhosts", answer);
  const permissions = useFetch("permissions");
  const usersOf = (name) => (permissions.data || []).filter((each) => each.vhost === name).map((each) => each.user);
  const save = async (fields) => {
    const body = { description: fields.description, tags: fields.tags, tracing: fields.tracing === "on" };
    const done = await act(put(path("vhosts", fields.name), body), t("vhost.saved", { name: fields.name }));
    if (done) reload();
    return Boolean(done);
  };
  const drop = async (name) => {
    if (!await confirmed(t("vhost.delete"), t("vhost.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(path("vhosts", name)), t("vhost.deleted", { name }))) reload();
  };
  return html`<${Panel} id="vhosts" title=${t("admin.vhosts")} wide>
    <${Listing} listing=${listing} caption=${t("admin.vhosts")} keyOf=${(row) => row.name} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<a class="name" href=${to("admin", "vhosts", row.name)}>${row.name}</a>` },
      { id: "users", label: t("admin.users"), cell: (row) => permissions.data && (usersOf(row.name).join(", ") || html`<${Badge} tone="warn">${t("vhost.nobody")}<//>`) },
      { id: "description", label: t("vhost.description"), sort: "description", cell: (row) => row.description },
      { id: "tags", optional: true, label: t("user.tags"), sort: "tags", cell: (row) => row.tags.join(", ") },
      { id: "state", optional: true, label: t("vhost.states"), cell: (row) => Object.entries(row.cluster_state).map(([node, state]) => html`<div key=${node}>${node} <${State} value=${state} /></div>`) },
      { id: "ready", optional: true, label: t("number.messages_ready"), sort: "messages_ready", numeric: true, cell: (row) => count(row.messages_ready ?? 0) },
      { id: "unacked", optional: true, label: t("number.messages_unacknowledged"), sort: "messages_unacknowledged", numeric: true, cell: (row) => count(row.messages_unacknowledged ?? 0) },
      { id: "messages", label: t("number.messages"), sort: "messages", numeric: true, cell: (row) => count(row.messages ?? 0) },
      { id: "received", optional: true, label: t("connection.received"), sort: "recv_oct_details.rate", numeric: true, cell: (row) => byteRate(row.recv_oct_details?.rate) },
      { id: "sent", optional: true, label: t("connection.sent"), sort: "send_oct_details.rate", numeric: true, cell: (row) => byteRate(row.send_oct_details?.rate) },
      { id: "publish", label: t("number.publish"), sort: "message_stats.publish_details.rate", numeric: true, cell: (row) => rateOf(row, "publish") },
      { id: "deliver", label: t("number.deliver_get"), sort: "message_stats.deliver_get_details.rate", numeric: true, cell: (row) => rateOf(row, "deliver_get") },
      { id: "tracing", label: t("vhost.tracing"), cell: (row) => (row.tracing ? t("common.yes") : t("common.no")) },
      { id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" onClick=${() => drop(row.name)}>${t("common.delete")}</button>` },
    ]} />
    <${Folded} title=${t("vhost.add")}><${Form} label=${t("vhost.add")} button=${t("common.save")} onSubmit=${save}>
      <${Field} label=${t("common.name")} name="name" required />
      <${Field} label=${t("vhost.description")} name="description" />
      <${Field} label=${t("user.tags")} name="tags" hint=${t("vhost.tagsHint")} />
      <div class="checks"><${Check} label=${t("vhost.tracing")} name="tracing" /></div>
    <//><//>
  <//>`;
}
