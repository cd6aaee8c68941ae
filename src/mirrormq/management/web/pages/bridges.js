// Bridges page: shovels, federation links and upstreams, with their states, and forms that add them.
import { Arguments, Badge, Panel, Progress, Refusal, State } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Check, Field, Folded, Form } from "../components/forms.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { useChosenVhost, VhostField } from "../components/vhosts.js";
import { path, put, remove } from "../lib/api.js";
import { ACK_MODES, destinationOf, isLocal, shovelDefinition, shownUri, sourceOf, upstreamDefinition } from "../lib/bridges.js";
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { to } from "../lib/router.js";
import { isMonitor, isPolicymaker } from "../lib/session.js";

const EVERY_S = 2;

const AckModes = () => html`<${Field} label=${t("bridge.ackMode")} name="ackMode" value="on-confirm" options=${ACK_MODES.map((mode) => [mode, t(`bridge.mode.${mode}`)])} wide />`;

function End({ uri, name }) {
  return html`<div class="bridge-end"><span class="name">${name || t("bridge.asBefore")}</span> <small class="soft">${isLocal(uri ?? "") ? t("bridge.here") : shownUri(uri)}</small></div>`;
}

// State with its reason: a link that does not run says why.
function LinkState({ state, reason, since, next }) {
  return html`<${State} value=${state} /> <small class="soft">${since && t("bridge.since", { at: since })}</small>${reason && html`<p class="bridge-reason" lang="en">${reason}</p>`}${next && html`<small class="soft">${t("bridge.next", { at: next })}</small>`}`;
}

function Moved({ row }) {
  if (row.forwarded === undefined) return "–";
  const all = row.forwarded + (row.remaining ?? 0);
  return html`${count(row.forwarded)}${row.remaining !== undefined && all > 0 && html`<div class="bridge-progress"><${Progress} label=${t("move.progress")} done=${row.forwarded} total=${all} /></div>`}`;
}

function ShovelForm({ onDone }) {
  const [kinds, setKinds] = useState({ source: "queue", destination: "queue" });
  const kindOptions = [["queue", t("bridge.queue")], ["exchange", t("bridge.exchange")]];
  const save = async (fields) => {
    const done = await act(put(path("parameters", "shovel", fields.vhost, fields.name), { value: shovelDefinition(fields) }), t("shovel.saved", { name: fields.name }));
    if (done) onDone();
    return Boolean(done);
  };
  return html`<${Form} label=${t("shovel.add")} button=${t("common.save")} onSubmit=${save}>
    <${VhostField} /><${Field} label=${t("common.name")} name="name" required />
    <${Field} label=${t("shovel.sourceUri")} name="sourceUri" required wide value="amqp://" hint=${t("bridge.uriHint")} />
    <${Field} label=${t("shovel.sourceKind")} name="sourceKind" options=${kindOptions} value=${kinds.source} onChange=${(event) => setKinds({ ...kinds, source: event.target.value })} />
    <${Field} label=${t("shovel.source")} name="source" required />
    ${kinds.source === "exchange" && html`<${Field} label=${t("shovel.sourceKey")} name="sourceKey" />`}
    <${Field} label=${t("shovel.destinationUri")} name="destinationUri" required wide hint=${t("bridge.uriHint")} />
    <${Field} label=${t("shovel.destinationKind")} name="destinationKind" options=${kindOptions} value=${kinds.destination} onChange=${(event) => setKinds({ ...kinds, destination: event.target.value })} />
    <${Field} label=${t("shovel.destination")} name="destination" hint=${t("shovel.destinationHint")} />
    ${kinds.destination === "exchange" && html`<${Field} label=${t("shovel.destinationKey")} name="destinationKey" />`}
    <${AckModes} />
    <${Field} label=${t("bridge.prefetch")} name="prefetch" type="number" min="0" hint=${t("bridge.default", { value: "1000" })} />
    <${Field} label=${t("bridge.reconnectDelay")} name="reconnectDelay" type="number" min="0" step="any" hint=${t("bridge.default", { value: "5" })} />
    <${Field} label=${t("shovel.deleteAfter")} name="deleteAfter" pattern="queue-length|[0-9]+" hint=${t("shovel.deleteAfterHint")} />
    <div class="checks wide"><${Check} label=${t("shovel.forwardHeaders")} name="forwardHeaders" /></div>
  <//>`;
}

// Users without the tag monitoring see the definitions only, as rows without a state.
const definedRow = ({ name, vhost, value }) => ({
  name, vhost, type: "dynamic", src_uri: shownUri(value["src-uri"]), dest_uri: shownUri(value["dest-uri"]),
  src_queue: value["src-queue"], src_exchange: value["src-exchange"], dest_queue: value["dest-queue"], dest_exchange: value["dest-exchange"],
});

function Shovels({ user, chosen }) {
  const monitor = isMonitor(user);
  const { data, error, reload } = useFetch(monitor ? "shovels" : "parameters/shovel", {}, { every: EVERY_S });
  const rows = (monitor ? data : data?.map(definedRow))?.filter((row) => !chosen || !row.vhost || row.vhost === chosen);
  const where = (row) => path("shovels", "vhost", row.vhost || "/", row.name);
  const restart = async (row) => {
    if (await act(remove(`${where(row)}/restart`), t("bridge.restarted", { name: row.name }))) reload();
  };
  const drop = async (row) => {
    if (!await confirmed(t("shovel.delete"), t("shovel.deleteText", { name: row.name }), t("common.delete"))) return;
    if (await act(remove(path("parameters", "shovel", row.vhost, row.name)), t("shovel.deleted", { name: row.name }))) reload();
  };
  return html`<${Panel} id="shovels" title=${t("bridge.shovels")} wide>
    <${Refusal} error=${error} />
    <${Table} caption=${t("bridge.shovels")} rows=${rows} keyOf=${(row) => JSON.stringify([row.type, row.vhost, row.name])} empty=${t("shovel.none")} columns=${[
      { id: "name", label: t("common.name"), head: true, cell: (row) => html`<span class="name">${row.name}</span>${row.type === "static" && html` <${Badge} title=${t("shovel.staticText")}>${t("shovel.static")}<//>`}` },
      { id: "vhost", label: t("common.vhost"), cell: (row) => row.vhost ?? "–" },
      monitor && { id: "state", label: t("common.state"), cell: (row) => html`<${LinkState} state=${row.state} reason=${row.reason} since=${row.timestamp} next=${row.next_attempt} />` },
      { id: "route", label: t("shovel.route"), cell: (row) => html`<${End} uri=${row.src_uri} name=${sourceOf(row)} /><span aria-hidden="true">↓</span><${End} uri=${row.dest_uri} name=${destinationOf(row)} />` },
      monitor && { id: "moved", label: t("bridge.moved"), numeric: true, cell: (row) => html`<${Moved} row=${row} />` },
      monitor && { id: "node", label: t("common.node"), cell: (row) => (row.node ? html`<a href=${to("nodes", row.node)}>${row.node}</a>` : "–") },
      { id: "actions", short: true, label: t("common.actions"), cell: (row) => html`${monitor && html`<button type="button" class="button quiet" aria-label=${t("bridge.restartOf", { name: row.name })} onClick=${() => restart(row)}>${t("bridge.restart")}</button>`}
        ${isPolicymaker(user) && row.type !== "static" && html`<button type="button" class="button quiet" aria-label=${t("shovel.deleteOf", { name: row.name })} onClick=${() => drop(row)}>${t("common.delete")}</button>`}` },
    ]} />
    ${isPolicymaker(user) && html`<${Folded} title=${t("shovel.add")}><${ShovelForm} onDone=${reload} /><//>`}
  <//>`;
}

function FederationLinks({ chosen }) {
  const { data, error, reload } = useFetch("federation-links", {}, { every: EVERY_S });
  const rows = data?.filter((row) => !chosen || row.vhost === chosen);
  const restart = async (row) => {
    if (await act(remove(`${path("federation-links", "vhost", row.vhost, row.id, row.node)}/restart`), t("bridge.restarted", { name: row.upstream }))) reload();
  };
  return html`<${Panel} id="federation" title=${t("bridge.federation")} wide>
    <${Refusal} error=${error} />
    <${Table} caption=${t("bridge.federation")} rows=${rows} keyOf=${(row) => row.id} empty=${t("federation.none")} columns=${[
      { id: "name", label: t("federation.object"), head: true, cell: (row) => html`<a class="name" href=${to(row.type === "exchange" ? "exchanges" : "queues", row.vhost, row[row.type])}>${row[row.type]}</a> <${Badge}>${t(`bridge.${row.type}`)}<//>` },
      { id: "vhost", label: t("common.vhost"), cell: (row) => row.vhost },
      { id: "state", label: t("common.state"), cell: (row) => html`<${LinkState} state=${row.status} reason=${row.error} since=${row.timestamp} />` },
      { id: "upstream", label: t("federation.upstream"), cell: (row) => html`<span class="name">${row.upstream}</span><br /><small class="soft">${row.uri}</small>` },
      { id: "moved", label: t("bridge.moved"), numeric: true, cell: (row) => html`<${Moved} row=${row} />` },
      { id: "node", label: t("common.node"), cell: (row) => (row.node ? html`<a href=${to("nodes", row.node)}>${row.node}</a>` : "–") },
      { id: "id", label: "ID", minor: true, cell: (row) => html`<code>${row.id}</code>` },
      { id: "actions", short: true, label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" aria-label=${t("bridge.restartOf", { name: row.upstream })} onClick=${() => restart(row)}>${t("bridge.restart")}</button>` },
    ]} />
  <//>`;
}

function UpstreamForm({ onDone }) {
  const save = async (fields) => {
    const done = await act(put(path("parameters", "federation-upstream", fields.vhost, fields.name), { value: upstreamDefinition(fields) }), t("federation.saved", { name: fields.name }));
    if (done) onDone();
    return Boolean(done);
  };
  return html`<${Form} label=${t("federation.add")} button=${t("common.save")} onSubmit=${save}>
    <${VhostField} /><${Field} label=${t("common.name")} name="name" required />
    <${Field} label="URI" name="uri" required wide hint=${t("bridge.uriHint")} />
    <${AckModes} />
    <${Field} label=${t("bridge.prefetch")} name="prefetch" type="number" min="0" hint=${t("bridge.default", { value: "1000" })} />
    <${Field} label=${t("bridge.reconnectDelay")} name="reconnectDelay" type="number" min="0" step="any" hint=${t("bridge.default", { value: "5" })} />
    <${Field} label=${t("federation.exchange")} name="exchange" hint=${t("federation.sameName")} />
    <${Field} label=${t("federation.maxHops")} name="maxHops" type="number" min="1" hint=${t("bridge.default", { value: "1" })} />
    <${Field} label=${t("federation.expires")} name="expires" type="number" min="1" hint=${t("federation.expiresHint")} />
    <${Field} label=${t("federation.messageTtl")} name="messageTtl" type="number" min="1" />
    <${Field} label=${t("federation.queue")} name="queue" hint=${t("federation.sameName")} />
    <div class="checks wide"><${Check} label=${t("federation.trustUserId")} name="trustUserId" /></div>
  <//>`;
}

function Upstreams({ chosen }) {
  const { data, error, reload } = useFetch("parameters/federation-upstream");
  const rows = data?.filter((row) => !chosen || row.vhost === chosen);
  const drop = async (row) => {
    if (!await confirmed(t("federation.delete"), t("federation.deleteText", { name: row.name }), t("common.delete"))) return;
    if (await act(remove(path("parameters", "federation-upstream", row.vhost, row.name)), t("federation.deleted", { name: row.name }))) reload();
  };
  const others = ({ uri, ...rest }) => rest;
  return html`<${Panel} id="upstreams" title=${t("federation.upstreams")} wide>
    <p class="soft">${t("federation.text")} <a href=${to("admin", "policies")}>${t("admin.policies")}</a></p>
    <${Refusal} error=${error} />
    <${Table} caption=${t("federation.upstreams")} rows=${rows} keyOf=${(row) => JSON.stringify([row.vhost, row.name])} empty=${t("federation.noUpstreams")} columns=${[
      { id: "name", label: t("common.name"), head: true, cell: (row) => html`<span class="name">${row.name}</span>` },
      { id: "vhost", label: t("common.vhost"), cell: (row) => row.vhost },
      { id: "uri", label: "URI", cell: (row) => [row.value.uri].flat().map((uri) => html`<div key=${uri}>${shownUri(uri)}</div>`) },
      { id: "keys", label: t("federation.keys"), cell: (row) => html`<${Arguments} value=${others(row.value)} />` },
      { id: "actions", short: true, label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" aria-label=${t("federation.deleteOf", { name: row.name })} onClick=${() => drop(row)}>${t("common.delete")}</button>` },
    ]} />
    <${Folded} title=${t("federation.add")}><${UpstreamForm} onDone=${reload} /><//>
  <//>`;
}

export function Bridges({ user }) {
  const chosen = useChosenVhost();
  return html`<h1>${t("place.bridges")}</h1>
    <div class="panels"><${Shovels} user=${user} chosen=${chosen} />
      ${isMonitor(user) && html`<${FederationLinks} chosen=${chosen} />`}
      ${isPolicymaker(user) && html`<${Upstreams} chosen=${chosen} />`}</div>`;
}
