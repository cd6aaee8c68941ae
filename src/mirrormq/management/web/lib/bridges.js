// Shovels and federation links as rows of one form, and the definitions that forms write.
import { path } from "./api.js";

export const ACK_MODES = ["on-confirm", "on-publish", "no-ack"];

// Without user, password and query: a page shows no credentials.
export const shownUri = (uri) => (Array.isArray(uri) ? uri[0] : uri ?? "").replace(/\/\/[^/?#]*@/, "//").split(/[?#]/)[0];
export const localUri = (vhost) => `amqp:///${encodeURIComponent(vhost)}`;
export const isLocal = (uri) => /^amqp:\/\/(\/|$)/.test(uri);

export const movePath = (vhost, name) => path("parameters", "shovel", vhost, name);

// Name and definition of RabbitMQ's page for "Move messages".
export const moveName = (queue) => `Move from ${queue}`;
export function moveDefinition(vhost, queue, destination) {
  return {
    "src-uri": localUri(vhost), "src-queue": queue, "src-protocol": "amqp091", "src-prefetch-count": 1000, "src-delete-after": "queue-length",
    "dest-uri": localUri(vhost), "dest-queue": destination, "dest-protocol": "amqp091", "dest-add-forward-headers": false, "ack-mode": "on-confirm",
  };
}

const urisOf = (text) => {
  const uris = text.split(/\s+/).filter(Boolean);
  return uris.length === 1 ? uris[0] : uris;
};

// Definition of a shovel from the fields of its form; empty fields keep RabbitMQ's defaults.
export function shovelDefinition(fields) {
  const found = { "src-uri": urisOf(fields.sourceUri), "dest-uri": urisOf(fields.destinationUri), "ack-mode": fields.ackMode };
  found[fields.sourceKind === "exchange" ? "src-exchange" : "src-queue"] = fields.source;
  if (fields.sourceKind === "exchange") found["src-exchange-key"] = fields.sourceKey;
  if (fields.destination) found[fields.destinationKind === "exchange" ? "dest-exchange" : "dest-queue"] = fields.destination;
  if (fields.destinationKind === "exchange" && fields.destinationKey) found["dest-exchange-key"] = fields.destinationKey;
  if (fields.prefetch) found["src-prefetch-count"] = Number(fields.prefetch);
  if (fields.deleteAfter) found["src-delete-after"] = fields.deleteAfter === "queue-length" ? fields.deleteAfter : Number(fields.deleteAfter);
  if (fields.reconnectDelay) found["reconnect-delay"] = Number(fields.reconnectDelay);
  if (fields.forwardHeaders === "on") found["dest-add-forward-headers"] = true;
  return found;
}

export function upstreamDefinition(fields) {
  const found = { uri: urisOf(fields.uri), "ack-mode": fields.ackMode };
  if (fields.trustUserId === "on") found["trust-user-id"] = true;
  for (const [field, key] of [["prefetch", "prefetch-count"], ["reconnectDelay", "reconnect-delay"], ["maxHops", "max-hops"], ["expires", "expires"], ["messageTtl", "message-ttl"]]) {
    if (fields[field]) found[key] = Number(fields[field]);
  }
  for (const key of ["exchange", "queue"]) if (fields[key]) found[key] = fields[key];
  return found;
}

const sourceOf = (row) => row.src_queue ?? row.src_exchange ?? "";
const destinationOf = (row) => row.dest_queue ?? row.dest_exchange ?? "";

// Rows of the drawing: {key, name, node, state, reason, from: {uri, name}, into: {uri, name}}.
export function linksOf(shovels, federation) {
  return [
    ...shovels.map((row) => ({
      key: JSON.stringify([row.vhost ?? "", row.type, row.name]), name: row.name, node: row.node, state: row.state, reason: row.reason,
      from: { uri: row.src_uri ?? "", name: sourceOf(row) }, into: { uri: row.dest_uri ?? "", name: destinationOf(row) },
    })),
    ...federation.map((row) => ({
      key: row.id, name: row.upstream, node: row.node, state: row.status, reason: row.error,
      from: { uri: row.uri, name: row.upstream_exchange ?? row.upstream_queue }, into: { uri: localUri(row.vhost), name: row.exchange ?? row.queue },
    })),
  ];
}

export { destinationOf, sourceOf };
