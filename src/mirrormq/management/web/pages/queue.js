// Page of one queue: its numbers, ring, consumers and messages, and the buttons that change it.
import { Arguments, Facts, Panel, Refusal, Stat, State, Stats } from "../components/basics.js";
import { BindForm, BindingTable } from "../components/bindings.js";
import { Breakdown } from "../components/breakdown.js";
import { ConsumerTable } from "../components/consumers.js";
import { confirmed } from "../components/dialog.js";
import { LEASES_EVERY_S, LeaseTable } from "../components/leases.js";
import { GetMessages } from "../components/messages.js";
import { MoveMessages } from "../components/move_messages.js";
import { act } from "../components/notices.js";
import { PublishForm } from "../components/publish.js";
import { QueueRing } from "../components/queue_ring.js";
import { queueCharts, Traffic } from "../components/traffic.js";
import { path, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { bytes, count, percent, short } from "../lib/format.js";
import { html, useRef } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { keyOf, live } from "../lib/live.js";
import { shortRate } from "../lib/rates.js";
import { useRights } from "../lib/rights.js";
import { go, to } from "../lib/router.js";
import { numbersOf, Series } from "../lib/series.js";
import { isPolicymaker } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Features } from "./exchanges.js";

const HISTORY_COLUMNS = "message_stats,messages_details,messages_ready_details,messages_unacknowledged_details";

// Lines of this queue's charts: earlier stream events, then a request per second.
function useSeries(key, data, tick) {
  const series = useRef(null);
  const last = useRef(0);
  if (series.current === null) series.current = live.value.queues.get(key)?.series.copy() || new Series();
  if (data && last.current !== tick) {
    last.current = tick;
    series.current.add(live.value.atMs / 1000, numbersOf(data));
  }
  return series.current;
}

function Buttons({ where, name, rights }) {
  const purge = async () => {
    if (await confirmed(t("queue.purge"), t("queue.purgeText", { name }), t("queue.purge"))) await act(remove(`${where}/contents`), t("queue.purged"));
  };
  const drop = async () => {
    if (!await confirmed(t("queue.delete"), t("queue.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(where), t("queue.deleted", { name }))) go("queues");
  };
  return html`${rights.read && html`<button type="button" class="button" onClick=${purge}>${t("queue.purge")}</button>`}
    ${rights.configure && html`<button type="button" class="button danger" onClick=${drop}>${t("common.delete")}</button>`}`;
}

function Details({ data }) {
  return html`<${Facts} rows=${[
    [t("common.state"), html`<${State} value=${data.state} />`],
    [t("common.features"), html`<${Features} row=${data} />`],
    [t("queue.bytes"), bytes(data.message_bytes)], [t("queue.bytesReady"), bytes(data.message_bytes_ready)],
    [t("queue.bytesUnacked"), bytes(data.message_bytes_unacknowledged)], [t("queue.bytesInMemory"), bytes(data.message_bytes_ram)], [t("queue.bytesPersistent"), bytes(data.message_bytes_persistent)],
    [t("queue.inMemory"), count(data.messages_ram)], [t("queue.persistent"), count(data.messages_persistent)],
    [t("node.memory"), bytes(data.memory)], [t("queue.capacity"), percent(data.consumer_utilisation)],
    data.exclusive && data.owner_pid_details && [t("queue.owner"), html`<a class="name" href=${to("connections", data.owner_pid_details.name)}>${data.owner_pid_details.name}</a>`],
    [t("common.policy"), data.policy || t("common.none")],
    data.operator_policy && [t("queue.operatorPolicy"), data.operator_policy],
    [t("queue.effective"), html`<${Arguments} value=${data.effective_policy_definition} />`],
    [t("common.arguments"), html`<${Arguments} value=${data.arguments} />`],
  ]} />`;
}

export function Queue({ vhost, name, user }) {
  const where = path("queues", vhost, name);
  const { data, error, reload } = useFetch(where, {}, { every: 1 });
  const leases = useFetch(path("mirrormq", "leases", vhost), {}, { every: LEASES_EVERY_S, follow: "pipeline" });
  const held = (leases.data || []).filter((lease) => lease.queue === name);
  const rights = useRights(vhost, name);
  const mayPublish = useRights(vhost, "amq.default").write;
  const { tick, nodes } = useStore(live);
  const series = useSeries(keyOf({ vhost, name }), data, tick);
  const numbers = data ? numbersOf(data) : null;
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("queues")}>${t("place.queues")}</a></nav>
    <div class="page-head"><h1 class="name">${name} <small class="soft">${t("common.inVhost", { vhost })}</small></h1>
      ${data && html`<div class="buttons"><${Buttons} where=${where} name=${name} rights=${rights} /></div>`}</div>
    <${Refusal} error=${error} />
    ${data && html`<${Stats}>
      <${Stat} label=${t("number.messages_ready")} value=${short(numbers.messages_ready)} tone="ready" />
      <${Stat} label=${t("number.messages_unacknowledged")} value=${short(numbers.messages_unacknowledged)} tone="unacked" />
      <${Stat} label=${t("number.publish")} value=${shortRate(numbers.publish)} unit=${t("unit.perSecondShort")} tone="publish" />
      <${Stat} label=${t("number.deliver_get")} value=${shortRate(numbers.deliver_get)} unit=${t("unit.perSecondShort")} tone="deliver" />
      <${Stat} label=${t("overview.consumers")} value=${count(data.consumers ?? 0)} />
    <//>
    <div class="panels">
      <${QueueRing} queue=${data} nodes=${nodes} user=${user} flowing=${numbers.publish > 0} onDone=${reload} />
      <${Panel} id="facts" title=${t("common.details")} wide><${Details} data=${data} /><//>
      <${Traffic} where=${where} columns=${HISTORY_COLUMNS} live=${{ series, tick }} charts=${queueCharts()} />
      ${rights.read && html`<${Panel} id="get" title=${t("get.title")}><${GetMessages} where=${where} /><//>`}
      ${mayPublish && html`<${Panel} id="publish" title=${t("publish.title")}><${PublishForm} vhost=${vhost} routingKey=${name} /><//>`}
      ${rights.read && isPolicymaker(user) && html`<${MoveMessages} vhost=${vhost} name=${name} ready=${numbers.messages_ready ?? 0} user=${user} />`}
      <${Panel} id="consumers" title=${t("overview.consumers")} wide><${ConsumerTable} rows=${data.consumer_details || []} /><//>
      <${Breakdown} parts=${[
        [t("breakdown.incoming"), t("exchange.name"), data.incoming, ["publish"]],
        [t("breakdown.deliveries"), t("channel.name"), data.deliveries, ["deliver_get", "ack", "redeliver"]],
      ]} />
      ${held.length > 0 && html`<${Panel} id="leases" title=${t("lease.title")} wide><p class="soft">${t("lease.text")}</p><${LeaseTable} leases=${held} onDone=${leases.reload} /><//>`}
      <${Panel} id="bindings" title=${t("binding.title")} wide>
        <${BindingTable} where=${`${where}/bindings`} vhost=${vhost} caption=${t("binding.title")} showSource canUnbind=${rights.write} />
        ${rights.write && html`<${BindForm} vhost=${vhost} fixed=${{ kind: "queue", destination: name }} />`}
      <//>
    </div>`}`;
}
