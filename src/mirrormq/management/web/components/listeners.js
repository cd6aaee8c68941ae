// Table of listeners: protocols and addresses at which the nodes accept clients.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Badge, Panel } from "./basics.js";
import { Table } from "./table.js";

const written = (host) => (host.includes(":") ? `[${host}]` : host);

export function Listeners({ rows, showNode = true, wide }) {
  return html`<${Panel} id="listeners" title=${t("overview.listeners")} wide=${wide}>
    <${Table} caption=${t("overview.listeners")} rows=${rows} keyOf=${(row) => `${row.node} ${row.protocol} ${row.ip_address} ${row.port}`} columns=${[
      { id: "protocol", label: t("overview.protocol"), head: true, cell: (row) => html`<${Badge}>${row.protocol}<//>` },
      { id: "address", label: t("overview.address"), cell: (row) => html`<code>${written(row.ip_address)}:${row.port}</code>` },
      showNode && { id: "node", label: t("common.node"), cell: (row) => row.node },
    ]} />
  <//>`;
}
