// Page of one node: use of memory, disk, file handles and sockets, links, listeners, churn and log.
import { Badge, Facts, Meter, Notice, Panel, Refusal, Stat, Stats } from "../components/basics.js";
import { Churn } from "../components/churn.js";
import { confirmed } from "../components/dialog.js";
import { HistoryPanel } from "../components/history.js";
import { Listeners } from "../components/listeners.js";
import { LogTail } from "../components/log_tail.js";
import { Memory } from "../components/memory.js";
import { pageOf } from "../components/node_links.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { path, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { byteRate, bytes, count, duration, short } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { to } from "../lib/router.js";
import { isAdministrator } from "../lib/session.js";
import { useStore } from "../lib/store.js";

const EVERY_S = 2;
const MEMORY_EVERY_S = 5;

const whole = (data) => data;
const charts = () => [
  { id: "memory", title: t("node.memory"), unit: "", lines: [["mem_used", "total"]], of: whole, isLevel: true, isNeverZero: true, format: bytes },
  { id: "disk", title: t("node.disk"), unit: "", lines: [["disk_free", "ready"]], of: whole, isLevel: true, isNeverZero: true, format: bytes },
  { id: "handles", title: t("node.handles"), unit: "", lines: [["fd_used", "publish"], ["sockets_used", "deliver", [6, 4]]], of: whole, isLevel: true },
  { id: "operations", title: t("node.operations"), unit: t("unit.operations"), lines: [["io_write_count", "publish"], ["io_read_count", "deliver", [6, 4]], ["io_sync_count", "redeliver", [2, 3]]], of: whole },
  { id: "bytes", title: t("node.diskData"), unit: "", lines: [["io_write_bytes", "publish"], ["io_read_bytes", "deliver", [6, 4]]], of: whole, format: byteRate },
];

// A stopped node has no numbers; its page leads to the nodes that have.
function Stopped({ name, nodes }) {
  const others = nodes.filter((node) => node.running !== false && node.name !== name);
  return html`<${Notice} tone="bad" title=${t("node.isStopped")}>${others.length > 0 && html`${t("node.living")} <ul>${others.map((node) => html`<li key=${node.name}><a href=${to("nodes", node.name)}>${node.name}</a></li>`)}</ul>`}<//>`;
}

function Links({ node }) {
  return html`<${Panel} id="links" title=${t("cluster.links")}>
    <${Table} caption=${t("cluster.links")} rows=${node.cluster_links || []} keyOf=${(link) => link.name} empty=${t("cluster.noLinks")} columns=${[
      { id: "peer", label: t("node.peer"), head: true, cell: (link) => html`<a href=${to("nodes", link.name)}>${link.name}</a>` },
      { id: "address", label: t("overview.address"), cell: (link) => html`<code>${link.peer_addr}:${link.peer_port}</code>` },
    ]} />
  <//>`;
}

const files = (paths) => (paths?.length ? paths.map((each) => html`<code key=${each}>${each}</code> `) : t("common.none"));

function Details({ node, overview }) {
  const page = overview && pageOf(node.name, overview.contexts || []);
  return html`<${Panel} id="facts" title=${t("common.details")} wide><${Facts} rows=${[
    [t("node.uptime"), duration(node.uptime)], [t("node.version"), node.applications?.[0]?.version],
    [t("node.data"), html`<code>${node.db_dir}</code>`], [t("node.configFiles"), files(node.config_files)], [t("node.logFiles"), files(node.log_files)],
    [t("node.pid"), node.os_pid], [t("node.processors"), count(node.processors)],
    [t("node.ratesMode"), node.rates_mode], [t("node.netTicktime"), t("unit.s", { n: node.net_ticktime })], [t("node.diskLimit"), bytes(node.disk_free_limit)],
    [t("node.diskTimes"), t("node.diskTimesText", { read: short(node.io_read_avg_time), write: short(node.io_write_avg_time), sync: short(node.io_sync_avg_time) })],
    page && [t("node.page"), html`<a href=${page}>${page}</a>`],
    [t("node.mechanisms"), (node.auth_mechanisms || []).map((each) => html`<${Badge} key=${each.name}>${each.name}<//>`)],
    [t("node.exchangeTypes"), (node.exchange_types || []).map((each) => html`<${Badge} key=${each.name} title=${each.description}>${each.name}<//>`)],
  ]} /><//>`;
}

export function NodePage({ name, user }) {
  const where = path("nodes", name);
  const { data, error } = useFetch(where, {}, { every: EVERY_S });
  const memory = useFetch(`${where}/memory`, {}, { every: MEMORY_EVERY_S, when: data?.running === true, follow: null });
  const overview = useFetch("overview", { columns: "listeners,contexts" });
  const nodes = useStore(live, (value) => value.nodes);
  const reset = async () => {
    if (!await confirmed(t("node.reset"), t("node.resetText", { name }), t("node.reset"))) return;
    await act(remove(path("reset", name)), t("cluster.wasReset"));
  };
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("cluster")}>${t("place.cluster")}</a></nav>
    <div class="page-head"><h1 class="name">${name} ${data && html`<${Badge} tone=${data.running ? "good" : "bad"}>${t(data.running ? "node.running" : "node.stopped")}<//>`}</h1>
      ${data?.running && isAdministrator(user) && html`<div class="buttons"><button type="button" class="button" onClick=${reset}>${t("node.reset")}</button></div>`}</div>
    <${Refusal} error=${error} />
    ${data && !data.running && html`<${Stopped} name=${name} nodes=${nodes || []} />`}
    ${data?.running && html`<${Stats}>
        <${Stat} label=${t("node.memory")} value=${html`<${Meter} label=${t("node.memoryOf", { node: name })} used=${data.mem_used} limit=${data.mem_limit} alarm=${data.mem_alarm} />`} />
        <${Stat} label=${t("node.disk")} value=${bytes(data.disk_free)} />
        <${Stat} label=${t("node.handles")} value=${html`<${Meter} label=${t("node.handles")} used=${data.fd_used} limit=${data.fd_total} format=${count} />`} />
        <${Stat} label=${t("node.sockets")} value=${html`<${Meter} label=${t("node.sockets")} used=${data.sockets_used} limit=${data.sockets_total} format=${count} />`} />
        <${Stat} label=${t("node.uptime")} value=${duration(data.uptime)} />
      <//>
      <div class="panels">
        <${Details} node=${data} overview=${overview.data} />
        <${Memory} parts=${memory.data?.memory} />
        <${HistoryPanel} id="resources" title=${t("node.resources")} where=${where} charts=${charts()} />
        <${Links} node=${data} />
        <${Listeners} rows=${(overview.data?.listeners || []).filter((row) => row.node === name)} showNode=${false} />
        <${Churn} where=${where} numbers=${data} />
        ${isAdministrator(user) && html`<${LogTail} node=${name} />`}
      </div>`}`;
}
