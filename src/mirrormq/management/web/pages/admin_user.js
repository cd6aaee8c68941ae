// Page of one user: tags, password, permissions, topic permissions and limits.
import { Badge, Facts, Panel, Refusal } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { LimitPanel, USER_LIMITS } from "../components/limits.js";
import { act } from "../components/notices.js";
import { PermissionPanel, TopicPermissionPanel } from "../components/permission_tables.js";
import { TagFields } from "../components/user_form.js";
import { path, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { go, to } from "../lib/router.js";
import { saveUser, tagsOf } from "../lib/users.js";

const KEEP = "keep", NEW = "new", NONE = "none";

export function UserPage({ name, user }) {
  const { data, error, reload } = useFetch(path("users", name));
  const update = async (fields) => {
    const password = { [KEEP]: undefined, [NEW]: fields.password, [NONE]: null }[fields.choice];
    if (await act(saveUser({ name, tags: tagsOf(fields), password }, user), t("user.saved", { name }))) reload();
  };
  const drop = async () => {
    if (!await confirmed(t("user.delete"), t("user.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(path("users", name)), t("user.deleted", { name }))) go("admin", "users");
  };
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("admin", "users")}>${t("admin.users")}</a></nav>
    <div class="page-head"><h1 class="name">${name}</h1>
      ${data && name !== user.name && html`<div class="buttons"><button type="button" class="button danger" onClick=${drop}>${t("common.delete")}</button></div>`}</div>
    <${Refusal} error=${error} />
    ${data && html`<${Panel} id="facts" title=${t("common.details")} wide>
        <${Facts} rows=${[
          [t("user.tags"), data.tags.length ? data.tags.map((tag) => html`<${Badge} key=${tag} tone="accent">${tag}<//>`) : t("common.none")],
          [t("user.hasPassword"), data.password_hash ? t("common.yes") : t("common.no")],
        ]} />
        <${Folded} title=${t("user.update")}><${Form} key=${JSON.stringify(data.tags)} label=${t("user.update")} button=${t("common.save")} onSubmit=${update}>
          <${Field} label=${t("user.passwordChoice")} name="choice" value=${KEEP} options=${[KEEP, NEW, NONE].map((each) => [each, t(`user.password.${each}`)])} />
          <${Field} label=${t("user.newPassword")} name="password" type="password" autocomplete="new-password" hint=${t("user.newPasswordHint")}
            onInput=${(event) => { if (event.target.value) event.target.form.elements.choice.value = NEW; }} />
          <${TagFields} tags=${data.tags} />
        <//><//>
      <//>
      <${PermissionPanel} of=${{ user: name }} />
      <${TopicPermissionPanel} of=${{ user: name }} />
      <${LimitPanel} id="limits" title=${t("admin.limits")} where="user-limits" of="user" target=${name} limits=${USER_LIMITS} />`}`;
}
