// Page of one channel: its state, rates, consumers, and the rates per exchange and queue.
import { Badge, Facts, Panel, Refusal, State } from "../components/basics.js";
import { Breakdown } from "../components/breakdown.js";
import { ConsumerTable } from "../components/consumers.js";
import { channelCharts, Traffic } from "../components/traffic.js";
import { path } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";

const EVERY_S = 2;

export function Channel({ name }) {
  const where = path("channels", name);
  const { data, error } = useFetch(where, {}, { every: EVERY_S });
  const modes = data ? [data.confirm && "confirm", data.transactional && "tx"].filter(Boolean) : [];
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("channels")}>${t("place.channels")}</a></nav>
    <h1 class="name">${name}</h1>
    <${Refusal} error=${error} />
    ${data && html`<div class="panels">
      <${Panel} id="facts" title=${t("common.details")} wide><${Facts} rows=${[
        [t("channel.connection"), html`<a class="name" href=${to("connections", data.connection_details.name)}>${data.connection_details.name}</a>`],
        [t("common.state"), html`<${State} value=${data.state} />`], [t("common.user"), data.user], [t("common.vhost"), data.vhost], [t("common.node"), data.node],
        [t("channel.mode"), modes.length ? modes.map((mode) => html`<${Badge} key=${mode}>${mode}<//>`) : t("common.none")],
        [t("channel.prefetch"), count(data.prefetch_count)], [t("channel.globalPrefetch"), count(data.global_prefetch_count)],
        [t("channel.unacked"), count(data.messages_unacknowledged)], [t("channel.unconfirmed"), count(data.messages_unconfirmed)],
        [t("channel.uncommitted"), count(data.messages_uncommitted)], [t("channel.acksUncommitted"), count(data.acks_uncommitted)],
      ]} /><//>
      <${Traffic} where=${where} columns="message_stats" charts=${channelCharts()} />
      <${Breakdown} parts=${[
        [t("breakdown.publishes"), t("exchange.name"), data.publishes, ["publish", "confirm"]],
        [t("breakdown.deliveries"), t("queue.name"), data.deliveries, ["deliver_get", "ack", "redeliver"]],
      ]} />
      <${Panel} id="consumers" title=${t("overview.consumers")} wide><${ConsumerTable} rows=${data.consumer_details || []} showQueue /><//>
    </div>`}`;
}
