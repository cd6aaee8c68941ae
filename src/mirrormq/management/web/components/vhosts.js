// Vhost selector; with a single vhost the field only shows its name.
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Field } from "./forms.js";

export function useVhosts() {
  const { data } = useFetch("vhosts", { columns: "name" });
  return (data || [{ name: "/" }]).map((vhost) => vhost.name);
}

export function VhostField({ name = "vhost", ...rest }) {
  return html`<${Field} label=${t("common.vhost")} name=${name} options=${useVhosts()} ...${rest} />`;
}
