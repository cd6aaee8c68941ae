// Churn: how many connections, channels and queues come and go.
import { count, rate } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Panel } from "./basics.js";
import { Table } from "./table.js";

const NAMES = ["connection_created", "connection_closed", "channel_created", "channel_closed", "queue_declared", "queue_created", "queue_deleted"];

export function Churn({ numbers, wide }) {
  return html`<${Panel} id="churn" title=${t("churn.title")} wide=${wide}>
    <${Table} caption=${t("churn.title")} rows=${NAMES} keyOf=${(name) => name} columns=${[
      { id: "event", label: t("churn.event"), head: true, cell: (name) => t(`churn.${name}`) },
      { id: "rate", label: t("churn.rate"), numeric: true, cell: (name) => rate(numbers[`${name}_details`]?.rate ?? 0) },
      { id: "total", label: t("churn.total"), numeric: true, cell: (name) => count(numbers[name] ?? 0) },
    ]} />
  <//>`;
}
