// Users page: list, add, change passwords and tags.
import { Badge, Panel, Refusal } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { act, say } from "../components/notices.js";
import { Table } from "../components/table.js";
import { get, path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { begin, encodeLogin } from "../lib/session.js";

const KEEP = "keep";
const TAGS = [[KEEP, "keep"], ["", "none"], ["management", "management"], ["policymaker", "policymaker"], ["monitoring", "monitoring"], ["administrator", "administrator"]];

export function Users({ user }) {
  const { data, error, reload } = useFetch("users");
  const permissions = useFetch("permissions");
  const mayIn = (name) => (permissions.data || []).filter((each) => each.user === name).map((each) => each.vhost);
  const save = async (fields) => {
    const users = await act(get("users"));
    if (!users) return false;
    const known = users.find((each) => each.name === fields.name);
    // The API replaces all tags: a new password without the user's tags would remove them.
    const tags = fields.tags === KEEP ? known?.tags || [] : fields.tags.split(",").filter(Boolean);
    const others = users.filter((each) => each.name !== fields.name && each.tags.includes("administrator"));
    if (known?.tags.includes("administrator") && !tags.includes("administrator") && !others.length) {
      say(t("user.lastAdministrator", { name: fields.name }), "bad");
      return false;
    }
    const body = { tags };
    if (fields.password) body.password = fields.password;
    else if (known) Object.assign(body, { password_hash: known.password_hash, hashing_algorithm: known.hashing_algorithm });
    const done = await act(put(path("users", fields.name), body), t("user.saved", { name: fields.name }));
    if (!done) return false;
    // Otherwise the next request of this page carries the old password, and the node ends the session.
    if (fields.name === user.name && fields.password) begin(encodeLogin(user.name, fields.password), user);
    reload();
    return true;
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
