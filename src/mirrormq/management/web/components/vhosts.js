// Vhost selectors: the field of a form, and the filter of all lists.
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { choose, preferences } from "../lib/preferences.js";
import { useStore } from "../lib/store.js";
import { Field } from "./forms.js";

export function useVhosts() {
  const { data } = useFetch("vhosts", { columns: "name" });
  return (data || [{ name: "/" }]).map((vhost) => vhost.name);
}

// Vhost of the filter, "" for all; a vhost that is gone filters nothing.
export function useChosenVhost() {
  const chosen = useStore(preferences, (value) => value.vhost);
  const { data } = useFetch("vhosts", { columns: "name" }, { when: chosen !== "" });
  return data && !data.some((vhost) => vhost.name === chosen) ? "" : chosen;
}

// In a form the chosen vhost of the filter comes first.
export function VhostField({ name = "vhost", vhosts: given, ...rest }) {
  const chosen = useChosenVhost();
  const all = useVhosts();
  const vhosts = given || all;
  return html`<${Field} label=${t("common.vhost")} name=${name} options=${vhosts} value=${vhosts.includes(chosen) ? chosen : vhosts[0]} ...${rest} />`;
}

export function VhostFilter() {
  const vhosts = useVhosts();
  const chosen = useChosenVhost();
  if (vhosts.length < 2) return null;
  return html`<label class="vhost-filter"><span class="vhost-filter-label">${t("common.vhost")}</span>
    <select aria-label=${t("frame.vhost")} onChange=${(event) => choose("vhost", event.target.value)}>
      <option value="" selected=${chosen === ""}>${t("frame.allVhosts")}</option>
      ${vhosts.map((name) => html`<option key=${name} value=${name} selected=${name === chosen}>${name}</option>`)}
    </select></label>`;
}
