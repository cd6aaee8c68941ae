// Leases with the button that releases them.
import { path, remove } from "../lib/api.js";
import { ago, bytes, count, duration } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { to } from "../lib/router.js";
import { useStore } from "../lib/store.js";
import { confirmed } from "./dialog.js";
import { act } from "./notices.js";
import { Named, Table } from "./table.js";

export const LEASES_EVERY_S = 5; // Only the queue's master knows the last use of a lease.

export function LeaseTable({ leases, showQueue, onDone }) {
  const nowMs = useStore(live, (value) => value.atMs);
  const several = new Set(leases.map((lease) => lease.vhost)).size > 1;
  const release = async (lease) => {
    const text = t("lease.releaseText", { n: count(lease.messages), queue: lease.queue, name: lease.name });
    if (!await confirmed(t("lease.release"), text, t("lease.release"))) return;
    const where = path("mirrormq", "leases", lease.vhost, lease.queue, lease.name);
    if (await act(remove(where), t("lease.released", { name: lease.name }))) onDone();
  };
  return html`<${Table} caption=${t("lease.title")} rows=${leases} empty=${t("lease.none")} keyOf=${(lease) => JSON.stringify([lease.vhost, lease.queue, lease.name])} columns=${[
    { id: "name", label: t("lease.name"), head: true, cell: (lease) => html`<span class="name">${lease.name}</span>` },
    showQueue && { id: "queue", label: t("queue.name"), cell: (lease) => html`<${Named} href=${to("queues", lease.vhost, lease.queue)} name=${lease.queue} />` },
    showQueue && several && { id: "vhost", label: t("common.vhost"), cell: (lease) => lease.vhost },
    { id: "user", minor: true, label: t("common.user"), cell: (lease) => lease.user },
    { id: "messages", label: t("lease.messages"), numeric: true, cell: (lease) => count(lease.messages) },
    { id: "bytes", label: t("lease.bytes"), numeric: true, cell: (lease) => bytes(lease.message_bytes) },
    { id: "used", short: true, label: t("lease.used"), cell: (lease) => ago(lease.idle_since, nowMs) },
    { id: "limit", minor: true, short: true, label: t("lease.limit"), cell: (lease) => duration(lease.idle_limit) },
    { id: "release", label: t("common.actions"), cell: (lease) => html`<button type="button" class="button danger" aria-label=${t("lease.releaseOf", { name: lease.name, queue: lease.queue })}
      onClick=${() => release(lease)}>${t("lease.release")}</button>` },
  ]} />`;
}
