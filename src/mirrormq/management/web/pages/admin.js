// Administration: users, vhosts, permissions, policies, limits, each on a tab with its own address.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { isAdministrator } from "../lib/session.js";
import { Limits } from "./admin_limits.js";
import { Permissions } from "./admin_permissions.js";
import { Policies } from "./admin_policies.js";
import { Users } from "./admin_users.js";
import { Vhosts } from "./admin_vhosts.js";

const TABS = { users: Users, vhosts: Vhosts, permissions: Permissions, policies: Policies, limits: Limits };

export function Admin({ parts, user }) {
  const allowed = isAdministrator(user) ? Object.keys(TABS) : ["policies"]; // A policymaker may edit only policies.
  const tab = allowed.includes(parts[0]) ? parts[0] : allowed[0];
  const Tab = TABS[tab];
  return html`<h1>${t("place.admin")}</h1>
    <nav class="tabs" aria-label=${t("place.admin")}><ul>${allowed.map((name) => html`<li key=${name}><a href=${to("admin", name)} aria-current=${name === tab ? "page" : undefined}>${t(`admin.${name}`)}</a></li>`)}</ul></nav>
    <${Tab} user=${user} />`;
}
