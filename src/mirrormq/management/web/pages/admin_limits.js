// Limits page: limits of vhosts and of users.
import { LimitPanel, USER_LIMITS, VHOST_LIMITS } from "../components/limits.js";
import { useVhosts } from "../components/vhosts.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

export function Limits() {
  const users = useFetch("users");
  return html`<div class="panels">
    <${LimitPanel} id="vhost-limits" where="vhost-limits" of="vhost" title=${t("limit.vhosts")} limits=${VHOST_LIMITS} targets=${useVhosts()} />
    <${LimitPanel} id="user-limits" where="user-limits" of="user" title=${t("limit.users")} limits=${USER_LIMITS} targets=${(users.data || []).map((each) => each.name)} />
  </div>`;
}
