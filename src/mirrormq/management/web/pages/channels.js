// Channels page.
import { channelColumns } from "../components/channels.js";
import { Listing, useListing } from "../components/listing.js";
import { path } from "../lib/api.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

export function Channels() {
  const listing = useListing("channels", { every: 2, inVhost: (vhost) => path("vhosts", vhost, "channels") });
  return html`<h1>${t("place.channels")}</h1>
    <${Listing} listing=${listing} caption=${t("place.channels")} keyOf=${(row) => row.name} empty=${t("channels.none")} columns=${channelColumns()} />`;
}
