// Connections page: the list, and one connection with its channels and the button that closes it.
import { Arguments, Facts, Panel, Refusal, State } from "../components/basics.js";
import { addressOf } from "../components/commands.js";
import { ChannelTable } from "../components/channels.js";
import { entered } from "../components/dialog.js";
import { Listing, useListing } from "../components/listing.js";
import { act } from "../components/notices.js";
import { connectionCharts, Traffic } from "../components/traffic.js";
import { path, request } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { byteRate, bytes, count, dateTime, shortNode } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { go, to } from "../lib/router.js";
import { isAdministrator } from "../lib/session.js";

const DEFAULT_REASON = "Closed via management plugin"; // RabbitMQ's, which clients and logs know.

const sofar = (row, name) => t("unit.sofar", { rate: byteRate(row[`${name}_details`]?.rate), n: bytes(row[name]) });

export function Connections() {
  const overview = useFetch("overview");
  const listing = useListing("connections", { every: 2, inVhost: (vhost) => path("vhosts", vhost, "connections") });
  return html`<h1>${t("place.connections")}</h1>
    <${Listing} listing=${listing} caption=${t("place.connections")} keyOf=${(row) => row.name} empty=${t("connections.none", { address: addressOf(overview.data) })} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<a class="name" href=${to("connections", row.name)}>${row.name}</a>${
        row.user_provided_name && html`<br /><small class="soft">${row.user_provided_name}</small>`}` },
      { id: "user", label: t("common.user"), sort: "user", cell: (row) => row.user },
      { id: "vhost", label: t("common.vhost"), sort: "vhost", cell: (row) => row.vhost },
      { id: "node", minor: true, label: t("common.node"), sort: "node", cell: (row) => shortNode(row.node) },
      { id: "state", label: t("common.state"), sort: "state", cell: (row) => html`<${State} value=${row.state} />` },
      { id: "tls", minor: true, label: "TLS", sort: "ssl", cell: (row) => (row.ssl ? t("common.yes") : t("common.no")) },
      { id: "channels", label: t("place.channels"), sort: "channels", numeric: true, cell: (row) => count(row.channels) },
      { id: "received", label: t("connection.received"), sort: "recv_oct_details.rate", numeric: true, cell: (row) => byteRate(row.recv_oct_details?.rate) },
      { id: "sent", label: t("connection.sent"), sort: "send_oct_details.rate", numeric: true, cell: (row) => byteRate(row.send_oct_details?.rate) },
      { id: "cipher", optional: true, label: t("connection.cipher"), sort: "ssl_cipher", cell: (row) => [row.ssl_protocol, row.ssl_cipher, row.ssl_hash].filter(Boolean).join(", ") },
      { id: "protocol", optional: true, label: t("overview.protocol"), sort: "protocol", cell: (row) => row.protocol },
      { id: "mechanism", optional: true, label: t("connection.mechanism"), sort: "auth_mechanism", cell: (row) => row.auth_mechanism },
      { id: "client", optional: true, label: t("connection.client"), cell: (row) => [row.client_properties?.product, row.client_properties?.version].filter(Boolean).join(" ") },
      { id: "heartbeat", optional: true, label: t("connection.heartbeat"), sort: "timeout", numeric: true, cell: (row) => t("unit.s", { n: row.timeout }) },
      { id: "frameMax", optional: true, label: t("connection.frameMax"), sort: "frame_max", numeric: true, cell: (row) => count(row.frame_max) },
      { id: "channelMax", optional: true, label: t("connection.channelMax"), sort: "channel_max", numeric: true, cell: (row) => count(row.channel_max) },
      { id: "since", label: t("connection.since"), sort: "connected_at", cell: (row) => dateTime(row.connected_at) },
    ]} />`;
}

export function Connection({ name, user }) {
  const where = path("connections", name);
  const { data, error } = useFetch(where, {}, { every: 2 });
  const channels = useFetch(path("connections", name, "channels"), {}, { every: 2, when: Boolean(data) });
  const close = async () => {
    const field = { label: t("connection.reason"), value: DEFAULT_REASON };
    const reason = await entered(t("connection.close"), t("connection.closeText", { name }), t("connection.close"), field);
    if (reason === false) return;
    if (await act(request(path("connections", name), { method: "DELETE", reason }), t("connection.closed"))) go("connections");
  };
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("connections")}>${t("place.connections")}</a></nav>
    <h1 class="name">${name}</h1>
    <${Refusal} error=${error} />
    ${data && html`<div class="panels">
      <${Panel} id="facts" title=${t("common.details")} actions=${(isAdministrator(user) || data.user === user.name) && html`<button type="button" class="button danger" onClick=${close}>${t("connection.close")}</button>`}>
        <${Facts} rows=${[
          [t("common.state"), html`<${State} value=${data.state} />`],
          [t("common.user"), data.user], [t("common.vhost"), data.vhost], [t("common.node"), data.node],
          [t("connection.since"), dateTime(data.connected_at)],
          [t("connection.received"), sofar(data, "recv_oct")], [t("connection.sent"), sofar(data, "send_oct")],
          [t("connection.mechanism"), data.auth_mechanism],
          [t("connection.heartbeat"), t("unit.s", { n: data.timeout })],
          [t("connection.frameMax"), count(data.frame_max)], [t("connection.channelMax"), count(data.channel_max)],
          data.user_provided_name && [t("connection.name"), data.user_provided_name], [t("overview.protocol"), data.protocol],
          ["TLS", data.ssl ? [data.ssl_protocol, data.ssl_cipher, data.ssl_hash].filter(Boolean).join(", ") || t("common.yes") : t("common.no")],
          data.peer_cert_subject && [t("connection.certificate"), data.peer_cert_subject], data.peer_cert_issuer && [t("connection.issuer"), data.peer_cert_issuer], data.peer_cert_validity && [t("connection.validity"), data.peer_cert_validity],
        ]} />
      <//>
      <${Panel} id="client" title=${t("connection.client")}><${Arguments} value=${data.client_properties} /><//>
      <${Traffic} where=${where} columns="recv_oct_details,send_oct_details" charts=${connectionCharts()} />
      <${Panel} id="channels" title=${t("place.channels")} wide><${ChannelTable} rows=${channels.data || []} /><//>
    </div>`}`;
}
