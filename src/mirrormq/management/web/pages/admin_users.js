// Users page: list, add, delete; a user's own page has the rest.
import { Badge, Panel } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { Listing } from "../components/listing.js";
import { act, say } from "../components/notices.js";
import { TagFields } from "../components/user_form.js";
import { useWholeListing } from "../components/whole_listing.js";
import { path, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { saveUser, tagsOf } from "../lib/users.js";

export function Users({ user }) {
  const answer = useFetch("users");
  const { data, reload } = answer;
  const listing = useWholeListing("users", answer);
  const permissions = useFetch("permissions");
  const mayIn = (name) => (permissions.data || []).filter((each) => each.user === name).map((each) => each.vhost);
  const add = async (fields) => {
    if ((data || []).some((each) => each.name === fields.name)) {
      say(t("user.exists", { name: fields.name }), "bad");
      return false;
    }
    const saved = saveUser({ name: fields.name, tags: tagsOf(fields), password: fields.password || null }, user);
    const done = await act(saved, t("user.saved", { name: fields.name }));
    if (done) reload();
    return Boolean(done);
  };
  const drop = async (name) => {
    if (!await confirmed(t("user.delete"), t("user.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(path("users", name)), t("user.deleted", { name }))) reload();
  };
  return html`<${Panel} id="users" title=${t("admin.users")} wide>
    <${Listing} listing=${listing} caption=${t("admin.users")} keyOf=${(row) => row.name} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<a class="name" href=${to("admin", "users", row.name)}>${row.name}</a>` },
      { id: "tags", label: t("user.tags"), sort: "tags", cell: (row) => row.tags.map((tag) => html`<${Badge} key=${tag} tone="accent">${tag}<//>`) },
      { id: "vhosts", label: t("user.mayIn"), cell: (row) => permissions.data && (mayIn(row.name).join(", ") || html`<${Badge} tone="warn">${t("user.nowhere")}<//>`) },
      { id: "password", label: t("user.hasPassword"), cell: (row) => (row.password_hash ? t("common.yes") : t("common.no")) },
      { id: "actions", label: t("common.actions"), cell: (row) => row.name !== user.name && html`<button type="button" class="button quiet" onClick=${() => drop(row.name)}>${t("common.delete")}</button>` },
    ]} />
    <${Folded} title=${t("user.add")}><${Form} label=${t("user.add")} button=${t("user.addButton")} onSubmit=${add}>
      <${Field} label=${t("common.name")} name="name" required />
      <${Field} label=${t("login.password")} name="password" type="password" autocomplete="new-password" hint=${t("user.passwordHint")} />
      <${TagFields} />
    <//><//>
  <//>`;
}
