// Cluster page: nodes, links, masters and mirrors per node, and the button that rebalances them.
import { Badge, Panel, Refusal } from "../components/basics.js";
import { BridgeMap } from "../components/bridge_map.js";
import { ClusterMap, linksOf, Shares } from "../components/cluster_map.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { NodeTable, Troubles } from "../components/nodes.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { post, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { html, useMemo } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { to } from "../lib/router.js";
import { isAdministrator } from "../lib/session.js";
import { useStore } from "../lib/store.js";

const COUNT_EVERY_S = 5; // The whole list of queues is too large for every second.

export function mastersOf(queues) {
  const found = {};
  const of = (name) => (found[name] ??= { masters: 0, mirrors: 0 });
  for (const queue of queues) {
    if (!queue.node) continue;
    of(queue.node).masters += 1;
    (queue.slave_nodes || []).forEach((name) => { of(name).mirrors += 1; });
  }
  return found;
}

function Links({ nodes }) {
  const tones = { whole: "good", cut: "bad", gone: "plain" };
  return html`<${Table} caption=${t("cluster.links")} rows=${linksOf(nodes)} keyOf=${({ one, other }) => `${one.name} ${other.name}`} empty=${t("cluster.noLinks")} columns=${[
    { id: "between", label: t("cluster.between"), head: true, cell: ({ one, other }) => `${one.name} ↔ ${other.name}` },
    { id: "state", label: t("common.state"), cell: ({ state }) => html`<${Badge} tone=${tones[state]}>${t(`link.${state}`)}<//>` },
  ]} />`;
}

function ClusterName({ user }) {
  const { data, reload } = useFetch("cluster-name");
  const rename = async (fields) => {
    if (await act(put("cluster-name", { name: fields.name }), t("cluster.renamed", { name: fields.name }))) reload();
  };
  return html`<${Panel} id="name" title=${t("cluster.name")} wide><p class="name">${data?.name}</p>
    ${data && isAdministrator(user) && html`<${Folded} title=${t("cluster.rename")}><${Form} key=${data.name} label=${t("cluster.rename")} button=${t("common.save")} onSubmit=${rename}>
      <${Field} label=${t("cluster.name")} name="name" required value=${data.name} /><//><//>`}
  <//>`;
}

// Graph of the links to other brokers; nothing if there are none.
function Bridges() {
  const shovels = useFetch("shovels", {}, { every: COUNT_EVERY_S });
  const federation = useFetch("federation-links", {}, { every: COUNT_EVERY_S });
  const rows = [shovels.data || [], federation.data || []];
  if (!rows.flat().length) return null;
  return html`<${Panel} id="bridges" title=${t("bridge.map")} actions=${html`<a href=${to("bridges")}>${t("place.bridges")}</a>`} wide><${BridgeMap} shovels=${rows[0]} federation=${rows[1]} /><//>`;
}

export function Cluster({ user }) {
  const nodes = useStore(live, (value) => value.nodes);
  const { data, error, reload } = useFetch("queues", { columns: "node,slave_nodes" }, { every: COUNT_EVERY_S, follow: null });
  const masters = useMemo(() => mastersOf(data || []), [data]);
  const rebalance = async () => {
    if (!await confirmed(t("cluster.rebalance"), t("cluster.rebalanceText"), t("cluster.rebalance"))) return;
    if (await act(post("rebalance/queues"), t("cluster.rebalanced"))) reload();
  };
  const reset = async () => {
    if (!await confirmed(t("cluster.reset"), t("cluster.resetText"), t("cluster.reset"))) return;
    await act(remove("reset"), t("cluster.wasReset"));
  };
  if (!nodes) return html`<h1>${t("place.cluster")}</h1><p class="nothing">${t("common.loading")}</p>`;
  return html`<div class="page-head"><h1>${t("place.cluster")}</h1>
      ${isAdministrator(user) && html`<div class="buttons"><button type="button" class="button" onClick=${reset}>${t("cluster.reset")}</button>
        <button type="button" class="button primary" disabled=${nodes?.length < 2} onClick=${rebalance}>${t("cluster.rebalance")}</button></div>`}</div>
    <${Refusal} error=${error} />
    <${Troubles} nodes=${nodes} />
    <div class="panels">
      <${Panel} id="map" title=${t("cluster.map")}><${ClusterMap} nodes=${nodes} masters=${masters} /><//>
      <${Panel} id="shares" title=${t("cluster.shares")}><${Shares} nodes=${nodes} masters=${masters} /><h3>${t("cluster.links")}</h3><${Links} nodes=${nodes} /><//>
      <${Panel} id="nodes" title=${t("overview.nodes")} wide><${NodeTable} nodes=${nodes} masters=${masters} /><//>
      <${Bridges} />
      <${ClusterName} user=${user} />
    </div>`;
}
