// Feature flags page: RabbitMQ's flags that this broker implements; all are enabled.
import { Badge, Panel } from "../components/basics.js";
import { Listing } from "../components/listing.js";
import { act } from "../components/notices.js";
import { useWholeListing } from "../components/whole_listing.js";
import { path, put } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

export function FeatureFlags() {
  const answer = useFetch("feature-flags");
  const { reload } = answer;
  const listing = useWholeListing("feature-flags", answer);
  const enable = async (name) => {
    if (await act(put(path("feature-flags", name, "enable"), { name }), t("flag.enabled", { name }))) reload();
  };
  return html`<${Panel} id="flags" title=${t("admin.flags")} wide>
    <p class="soft">${t("flag.text")}</p>
    <${Listing} listing=${listing} caption=${t("admin.flags")} keyOf=${(flag) => flag.name} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (flag) => html`<code>${flag.name}</code>` },
      { id: "state", label: t("common.state"), sort: "state", cell: (flag) => (flag.state === "enabled" ? html`<${Badge} tone="good">${t("flag.on")}<//>`
        : html`<button type="button" class="button" onClick=${() => enable(flag.name)}>${t("flag.enable")}</button>`) },
      { id: "description", label: t("vhost.description"), cell: (flag) => html`<span lang="en">${flag.desc}</span>` },
    ]} />
  <//>`;
}
