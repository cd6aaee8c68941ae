// Administration: users, vhosts, permissions, policies, limits, definitions, feature flags, each on a tab with its own
// address. A second part of the address opens one user or vhost.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { isAdministrator } from "../lib/session.js";
import { Definitions } from "./admin_definitions.js";
import { FeatureFlags } from "./admin_flags.js";
import { Limits } from "./admin_limits.js";
import { Permissions } from "./admin_permissions.js";
import { Policies } from "./admin_policies.js";
import { UserPage } from "./admin_user.js";
import { Users } from "./admin_users.js";
import { VhostPage } from "./admin_vhost.js";
import { Vhosts } from "./admin_vhosts.js";

const TABS = { users: Users, vhosts: Vhosts, permissions: Permissions, policies: Policies, limits: Limits, definitions: Definitions, flags: FeatureFlags };
const OBJECTS = { users: UserPage, vhosts: VhostPage };

export function Admin({ parts, user }) {
  const allowed = isAdministrator(user) ? Object.keys(TABS) : ["policies"]; // A policymaker may edit only policies.
  const tab = allowed.includes(parts[0]) ? parts[0] : allowed[0];
  if (tab === parts[0] && tab in OBJECTS && parts.length > 1) {
    const Page = OBJECTS[tab];
    return html`<${Page} name=${parts[1]} user=${user} />`;
  }
  const Tab = TABS[tab];
  return html`<h1>${t("place.admin")}</h1>
    <nav class="tabs" aria-label=${t("place.admin")}><ul>${allowed.map((name) => html`<li key=${name}><a href=${to("admin", name)} aria-current=${name === tab ? "page" : undefined}>${t(`admin.${name}`)}</a></li>`)}</ul></nav>
    <${Tab} user=${user} />`;
}
