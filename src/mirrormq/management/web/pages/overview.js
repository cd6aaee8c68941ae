// Overview page: problems, totals, traffic, nodes and busiest queues.
import { Empty, Panel, Stat, Stats } from "../components/basics.js";
import { Churn } from "../components/churn.js";
import { Listeners } from "../components/listeners.js";
import { NodeTable, Troubles } from "../components/nodes.js";
import { Table } from "../components/table.js";
import { overviewCharts, Traffic } from "../components/traffic.js";
import { useFetch } from "../lib/fetching.js";
import { count, rate, short } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { numbersOf } from "../lib/series.js";
import { ratesShown, shortRate } from "../lib/rates.js";
import { to } from "../lib/router.js";
import { isMonitor } from "../lib/session.js";
import { useStore } from "../lib/store.js";

const BUSIEST = 6;
const CHURN_EVERY_S = 5;
const SECONDS_FRESH = 3; // The stream reports a busy queue every second.

function Busiest({ queues, tick }) {
  const rows = [...queues.values()].filter((heard) => tick - heard.tick < SECONDS_FRESH).map(({ row }) => ({ row, numbers: numbersOf(row) }))
    .map((each) => ({ ...each, work: each.numbers.publish + each.numbers.deliver_get }))
    .filter((each) => each.work > 0).sort((one, other) => other.work - one.work).slice(0, BUSIEST);
  return html`<${Panel} id="busiest" title=${t("overview.busiest")} actions=${html`<a href=${to("queues")}>${t("overview.allQueues")}</a>`}>
    <${Table} caption=${t("overview.busiest")} rows=${rows} keyOf=${({ row }) => `${row.vhost} ${row.name}`} empty=${t("overview.quiet")} columns=${[
      { id: "name", label: t("queue.name"), head: true, cell: ({ row }) => html`<a class="name" href=${to("queues", row.vhost, row.name)}>${row.name}</a>` },
      { id: "in", label: t("number.publish"), numeric: true, cell: ({ numbers }) => rate(numbers.publish) },
      { id: "out", label: t("number.deliver_get"), numeric: true, cell: ({ numbers }) => rate(numbers.deliver_get) },
      { id: "depth", label: t("number.messages"), numeric: true, cell: ({ numbers }) => count(numbers.messages) },
    ]} />
  <//>`;
}

export function Overview({ user }) {
  const { totals, nodes, history, queues, tick } = useStore(live);
  const { data } = useFetch("overview");
  const churn = useFetch("overview", { columns: "churn_rates" }, { every: CHURN_EVERY_S, follow: null });
  if (!totals) return html`<h1>${t("place.overview")}</h1><p class="nothing">${t("common.loading")}</p>`;
  const numbers = numbersOf(totals);
  const objects = totals.object_totals || {};
  return html`<div class="page-head"><h1>${t("place.overview")}</h1>
      ${data && html`<p class="soft">${t("overview.cluster", { name: data.cluster_name, version: data.rabbitmq_version })}</p>`}</div>
    ${isMonitor(user) && html`<${Troubles} nodes=${nodes} />`}
    <${Stats}>
      <${Stat} label=${t("number.messages_ready")} value=${short(numbers.messages_ready)} tone="ready" />
      <${Stat} label=${t("number.messages_unacknowledged")} value=${short(numbers.messages_unacknowledged)} tone="unacked" />
      <${Stat} label=${t("number.publish")} value=${shortRate(numbers.publish)} unit=${t("unit.perSecondShort")} tone="publish" />
      <${Stat} label=${t("number.deliver_get")} value=${shortRate(numbers.deliver_get)} unit=${t("unit.perSecondShort")} tone="deliver" />
      <${Stat} label=${t("number.ack")} value=${shortRate(numbers.ack)} unit=${t("unit.perSecondShort")} tone="ack" />
    <//>
    <${Stats}>${["connections", "channels", "exchanges", "queues"].map((name) => html`<${Stat} key=${name} label=${t(`place.${name}`)} value=${count(objects[name] ?? 0)} href=${to(name)} />`)}
      <${Stat} label=${t("overview.consumers")} value=${count(objects.consumers ?? 0)} /><//>
    <div class="panels">
      <${Traffic} where="overview" columns="message_stats,queue_totals" live=${{ series: history, tick }} charts=${overviewCharts()} />
      ${isMonitor(user) && html`<${Panel} id="nodes" title=${t("overview.nodes")} wide>${nodes.length ? html`<${NodeTable} nodes=${nodes} />` : html`<${Empty} title=${t("common.nothing")} />`}<//>`}
      ${ratesShown() && html`<${Busiest} queues=${queues} tick=${tick} />`}
      ${churn.data && html`<${Churn} where="overview" columns="churn_rates" of=${(reply) => reply.churn_rates} numbers=${churn.data.churn_rates || {}} />`}
      ${data && isMonitor(user) && html`<${Listeners} rows=${data.listeners || []} wide />`}
    </div>`;
}
