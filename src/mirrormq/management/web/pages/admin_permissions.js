// Permissions: what a user may configure, write and read in a vhost.
import { Panel, Refusal } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { VhostField } from "../components/vhosts.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const RIGHTS = ["configure", "write", "read"];

export function Permissions() {
  const { data, error, reload } = useFetch("permissions");
  const users = useFetch("users");
  const save = async (fields) => {
    const body = Object.fromEntries(RIGHTS.map((right) => [right, fields[right]]));
    if (await act(put(path("permissions", fields.vhost, fields.user), body), t("permission.saved"))) reload();
  };
  const drop = async (row) => {
    if (!await confirmed(t("permission.clear"), t("permission.clearText", row), t("permission.clear"))) return;
    if (await act(remove(path("permissions", row.vhost, row.user)), t("permission.cleared"))) reload();
  };
  return html`<${Panel} id="permissions" title=${t("admin.permissions")} wide>
    <${Refusal} error=${error} />
    <${Table} caption=${t("admin.permissions")} rows=${data || []} keyOf=${(row) => JSON.stringify([row.vhost, row.user])} columns=${[
      { id: "user", label: t("common.user"), head: true, cell: (row) => html`<span class="name">${row.user}</span>` },
      { id: "vhost", label: t("common.vhost"), cell: (row) => row.vhost },
      ...RIGHTS.map((right) => ({ id: right, label: t(`permission.${right}`), cell: (row) => html`<code>${row[right]}</code>` })),
      { id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" onClick=${() => drop(row)}>${t("permission.clear")}</button>` },
    ]} />
    <${Folded} title=${t("permission.set")}><${Form} label=${t("permission.set")} button=${t("common.save")} onSubmit=${save}>
      <${Field} label=${t("common.user")} name="user" options=${(users.data || []).map((each) => each.name)} />
      <${VhostField} />
      ${RIGHTS.map((right) => html`<${Field} key=${right} label=${t(`permission.${right}`)} name=${right} value=".*" hint=${t(`permission.${right}Hint`)} />`)}
    <//><//>
  <//>`;
}
