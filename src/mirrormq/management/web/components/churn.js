// Churn: how many connections, channels and queues come and go, as charts and as a table.
import { count, rate } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { HistoryPanel } from "./history.js";
import { Table } from "./table.js";

const LINES = {
  connections: [["connection_created", "publish"], ["connection_closed", "redeliver", [6, 4]]],
  channels: [["channel_created", "publish"], ["channel_closed", "redeliver", [6, 4]]],
  queues: [["queue_created", "publish"], ["queue_deleted", "redeliver", [6, 4]], ["queue_declared", "deliver", [2, 3]]],
};
const NAMES = Object.values(LINES).flatMap((lines) => lines.map(([name]) => name));

// `of(data)`: the part of the reply of `where` with the numbers; `columns` of it are fetched.
export function Churn({ where, of = (data) => data, columns = NAMES.map((name) => `${name}_details`).join(), numbers }) {
  const charts = Object.entries(LINES).map(([kind, lines]) => ({ id: kind, title: t(`place.${kind}`), unit: t("unit.operations"), lines, of }));
  return html`<${HistoryPanel} id="churn" title=${t("churn.title")} where=${where} columns=${columns} charts=${charts}>
    <${Table} caption=${t("churn.title")} rows=${NAMES} keyOf=${(name) => name} columns=${[
      { id: "event", label: t("churn.event"), head: true, cell: (name) => t(`number.${name}`) },
      { id: "rate", label: t("churn.rate"), numeric: true, cell: (name) => rate(numbers[`${name}_details`]?.rate ?? 0) },
      { id: "total", label: t("churn.total"), numeric: true, cell: (name) => count(numbers[name] ?? 0) },
    ]} />
  <//>`;
}
