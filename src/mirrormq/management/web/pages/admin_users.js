// Users: who they are, new ones, other passwords and tags.
import { Badge, Panel, Refusal } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const TAGS = [["", "none"], ["management", "management"], ["policymaker", "policymaker"], ["monitoring", "monitoring"], ["administrator", "administrator"]];

export function Users({ user }) {
  const { data, error, reload } = useFetch("users");
  const permissions = useFetch("permissions");
  const mayIn = (name) => (permissions.data || []).filter((each) => each.user === name).map((each) => each.vhost);
  const save = async (fields) => {
    const known = (data || []).find((each) => each.name === fields.name);
    const body = { tags: fields.tags };
    if (fields.password) body.password = fields.password;
    else if (known) Object.assign(body, { password_hash: known.password_hash, hashing_algorithm: known.hashing_algorithm });
    const done = await act(put(path("users", fields.name), body), t("user.saved", { name: fields.name }));
    if (done) reload();
    return Boolean(done);
  };
  const drop = async (name) => {
    if (!await confirmed(t("user.delete"), t("user.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(path("users", name)), t("user.deleted", { name }))) reload();
  };
  return html`<${Panel} id="users" title=${t("admin.users")} wide>
    <${Refusal} error=${error} />
    <${Table} caption=${t("admin.users")} rows=${data || []} keyOf=${(row) => row.name} columns=${[
      { id: "name", label: t("common.name"), head: true, cell: (row) => html`<span class="name">${row.name}</span>` },
      { id: "tags", label: t("user.tags"), cell: (row) => row.tags.map((tag) => html`<${Badge} key=${tag} tone="accent">${tag}<//>`) },
      { id: "vhosts", label: t("user.mayIn"), cell: (row) => mayIn(row.name).join(", ") || html`<${Badge} tone="warn">${t("user.nowhere")}<//>` },
      { id: "password", label: t("user.hasPassword"), cell: (row) => (row.password_hash ? t("common.yes") : t("common.no")) },
      { id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" disabled=${row.name === user.name} onClick=${() => drop(row.name)}>${t("common.delete")}</button>` },
    ]} />
    <${Folded} title=${t("user.add")}><${Form} label=${t("user.add")} button=${t("common.save")} onSubmit=${save}>
      <${Field} label=${t("common.name")} name="name" required hint=${t("user.nameHint")} />
      <${Field} label=${t("login.password")} name="password" type="password" autocomplete="new-password" hint=${t("user.passwordHint")} />
      <${Field} label=${t("user.tags")} name="tags" options=${TAGS.map(([value, key]) => [value, t(`tag.${key}`)])} />
    <//><//>
  <//>`;
}
