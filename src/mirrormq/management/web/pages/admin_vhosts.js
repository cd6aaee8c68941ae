// Vhosts page.
import { Panel, Refusal } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Check, Field, Folded, Form } from "../components/forms.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { rateOf } from "../lib/rates.js";
import { to } from "../lib/router.js";

export function Vhosts() {
  const { data, error, reload } = useFetch("vhosts", {}, { every: 2 });
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
    <${Refusal} error=${error} />
    <${Table} caption=${t("admin.vhosts")} rows=${data || []} keyOf=${(row) => row.name} columns=${[
      { id: "name", label: t("common.name"), head: true, cell: (row) => html`<a class="name" href=${to("admin", "vhosts", row.name)}>${row.name}</a>` },
      { id: "description", label: t("vhost.description"), cell: (row) => row.description },
      { id: "messages", label: t("number.messages"), numeric: true, cell: (row) => count(row.messages ?? 0) },
      { id: "publish", label: t("number.publish"), numeric: true, cell: (row) => rateOf(row, "publish") },
      { id: "deliver", label: t("number.deliver_get"), numeric: true, cell: (row) => rateOf(row, "deliver_get") },
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
