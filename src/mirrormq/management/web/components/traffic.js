// Charts of message rates and queue lengths: of all queues, a vhost, a queue, an exchange, a channel.
import { byteRate } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { ratesShown } from "../lib/rates.js";
import { HistoryPanel } from "./history.js";

const PUBLISH = [["publish", "publish"], ["confirm", "confirm", [6, 4]]];
const DELIVER = [["deliver_get", "deliver"], ["ack", "ack", [6, 4]], ["redeliver", "redeliver", [2, 3]]];
const UNROUTABLE = [["return_unroutable", "warn", [2, 3]], ["drop_unroutable", "bad", [2, 3]]];
const LENGTHS = [["messages", "total"], ["messages_ready", "ready"], ["messages_unacknowledged", "unacked", [6, 4]]];
const DISK = [["disk_writes", "publish"], ["disk_reads", "deliver", [6, 4]]];
const DATA = [["recv_oct", "publish"], ["send_oct", "deliver", [6, 4]]];
const EXCHANGE = [["publish_in", "publish"], ["publish_out", "deliver", [6, 4]]];

export const QUEUE_RATES = [PUBLISH[0], ...DELIVER];
export const CHANNEL_RATES = [...PUBLISH, ...DELIVER, ...UNROUTABLE];

const messageStats = (data) => data.message_stats;
const whole = (data) => data;

const ratesChart = (lines) => ({ id: "rates", title: t("traffic.rates"), unit: t("unit.perSecond"), lines, of: messageStats });
const lengthsChart = (of = whole) => ({ id: "lengths", title: t("traffic.lengths"), unit: t("unit.messages"), lines: LENGTHS, of, isLevel: true });
const dataChart = () => ({ id: "data", title: t("traffic.data"), unit: t("unit.bytesPerSecond"), lines: DATA, of: whole, format: byteRate });

export function Traffic({ where, columns, live, charts }) {
  return html`<${HistoryPanel} id="traffic" title=${t("traffic.title")} where=${where} columns=${columns} live=${live}
      charts=${charts.filter((chart) => ratesShown() || chart.of !== messageStats)}>
    ${!ratesShown() && html`<p class="soft">${t("traffic.hidden")}</p>`}<//>`;
}

export const overviewCharts = () => [
  ratesChart(CHANNEL_RATES), lengthsChart((data) => data.queue_totals),
  { id: "disk", title: t("traffic.disk"), unit: t("unit.perSecond"), lines: DISK, of: messageStats },
];
export const vhostCharts = () => [ratesChart(CHANNEL_RATES), lengthsChart(), dataChart()];
export const queueCharts = () => [ratesChart(QUEUE_RATES), lengthsChart()];
export const exchangeCharts = () => [ratesChart(EXCHANGE)];
export const channelCharts = () => [ratesChart(CHANNEL_RATES)];
export const connectionCharts = () => [dataChart()];
