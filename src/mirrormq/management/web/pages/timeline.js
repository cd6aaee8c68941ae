// Failover timeline page: node failures, promotions, outages and redeliveries.
import { Badge, Empty, Panel, Refusal, Stat, Stats } from "../components/basics.js";
import { Field } from "../components/forms.js";
import { Lanes } from "../components/lanes.js";
import { groupsOf, summaryOf } from "../lib/event_groups.js";
import { useFetch } from "../lib/fetching.js";
import { count, day, duration, time } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { to } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const KINDS = ["node_down", "node_up", "promoted", "synchronised", "left_in_sync", "partition", "healed"];
const TONES = { node_down: "bad", partition: "bad", left_in_sync: "warn", promoted: "accent", node_up: "good", synchronised: "good", healed: "good" };

const STOPPED = "stopped in good order"; // Text of the API for a graceful stop.
const SAID = [[/^in place of (.*)$/, "event.inPlaceOf"], [/^partitioned from (.*)$/, "event.apartFrom"], [/^together with (.*) again$/, "event.togetherWith"]];

const isLoss = (event) => event.kind === "node_down" && event.text !== STOPPED;

function wordOf(event) {
  if (event.kind === "node_down" && !isLoss(event)) return t("event.node_stopped");
  return KINDS.includes(event.kind) ? t(`event.${event.kind}`) : event.kind;
}

// The API's texts are English: known ones are translated.
function saidOf(event) {
  if (event.kind === "node_down") return "";
  const [pattern, key] = SAID.find(([each]) => each.test(event.text)) || [];
  return key ? t(key, { node: pattern.exec(event.text)[1] }) : event.text;
}

function Event({ event }) {
  const said = saidOf(event);
  return html`<li class=${`event ${TONES[event.kind] || "plain"}`}>
    <time datetime=${new Date(event.at_ms).toISOString()}>${time(event.at_ms)}</time>
    <div class="event-text">
      <p><${Badge} tone=${TONES[event.kind]}>${wordOf(event)}<//>
        ${event.node && html` <strong>${event.node}</strong>`}
        ${event.queue && html` <a class="name" href=${to("queues", event.vhost ?? "/", event.queue)}>${event.queue}</a>`}</p>
      ${said && html`<p class="soft">${said}</p>`}
      ${(Number.isFinite(event.gap_ms) || event.redelivered > 0) && html`<ul class="event-numbers">
        ${Number.isFinite(event.gap_ms) && html`<li>${t("event.gap")} <strong>${duration(event.gap_ms)}</strong></li>`}
        ${event.redelivered > 0 && html`<li>${t("event.redelivered")} <strong>${count(event.redelivered)}</strong></li>`}</ul>`}
    </div>
  </li>`;
}

// Events of one failover as one row that opens.
function EventGroup({ group }) {
  const [latest] = group;
  const { nodes, gapMs, redelivered } = summaryOf(group);
  const said = saidOf(latest);
  return html`<li class=${`event ${TONES[latest.kind] || "plain"}`}>
    <time datetime=${new Date(latest.at_ms).toISOString()}>${time(latest.at_ms)}</time>
    <details class="event-text event-group"><summary><${Badge} tone=${TONES[latest.kind]}>${wordOf(latest)}<//> <strong>${t("event.queues", { n: count(group.length) })}</strong> <span class="soft">${nodes.join(", ")}</span>${said && html` <span class="soft">${said}</span>`}
        <ul class="event-numbers">${gapMs !== null && html`<li>${t("event.longestGap")} <strong>${duration(gapMs)}</strong></li>`}
          ${redelivered > 0 && html`<li>${t("event.redelivered")} <strong>${count(redelivered)}</strong></li>`}</ul></summary>
      <ul class="event-members">${group.map((event) => html`<li key=${JSON.stringify([event.vhost, event.queue, event.node])}><a class="name" href=${to("queues", event.vhost ?? "/", event.queue)}>${event.queue}</a> <span class="soft">${event.node}${
        Number.isFinite(event.gap_ms) ? `, ${duration(event.gap_ms)}` : ""}</span></li>`)}</ul></details>
  </li>`;
}

function Days({ events }) {
  const days = Map.groupBy ? Map.groupBy(events, (event) => day(event.at_ms)) : new Map([["", events]]);
  return [...days].map(([name, those]) => html`<section key=${name} class="day"><h3>${name}</h3><ol class="events">${groupsOf(those).map((group) => {
    const [event] = group;
    const key = JSON.stringify([event.at_ms, event.kind, event.vhost, event.queue, event.node]);
    return group.length > 1 ? html`<${EventGroup} key=${key} group=${group} />` : html`<${Event} key=${key} event=${event} />`;
  })}</ol></section>`);
}

export function Timeline() {
  const { data, error, loading } = useFetch("mirrormq/timeline", {}, { every: 2 });
  const { nodes, atMs } = useStore(live);
  const [kind, setKind] = useState("");
  if (loading) return html`<h1>${t("place.timeline")}</h1><p class="nothing">${t("common.loading")}</p>`;
  const events = [...(data || [])].sort((one, other) => other.at_ms - one.at_ms);
  const shown = kind ? events.filter((event) => event.kind === kind) : events;
  const gaps = events.filter((event) => event.kind === "promoted" && Number.isFinite(event.gap_ms)).map((event) => event.gap_ms);
  const missing = error?.status === 404;
  return html`<h1>${t("place.timeline")}</h1>
    ${!missing && html`<${Refusal} error=${error} />`}
    ${!events.length ? html`<${Empty} title=${missing ? t("timeline.notKept") : t("timeline.none")}>${t("timeline.noneText")}<//>` : html`
      <${Stats}>
        <${Stat} label=${t("timeline.deaths")} value=${count(events.filter(isLoss).length)} />
        <${Stat} label=${t("timeline.promotions")} value=${count(events.filter((event) => event.kind === "promoted").length)} />
        <${Stat} label=${t("timeline.longestGap")} value=${gaps.length ? duration(Math.max(...gaps)) : "–"} />
        <${Stat} label=${t("timeline.redelivered")} value=${count(events.reduce((sum, event) => sum + (event.redelivered || 0), 0))} />
      <//>
      <div class="panels">
        <${Panel} id="lanes" title=${t("timeline.whoWasUp")} wide><${Lanes} events=${events} nodes=${nodes || []} nowMs=${atMs} />
          <ul class="legend"><li><span class="swatch good" aria-hidden="true"></span>${t("node.running")}</li><li><span class="swatch bad" aria-hidden="true"></span>${t("node.stopped")}</li>
            <li>★ ${t("event.promoted")}</li><li>✓ ${t("event.synchronised")}</li><li>… ${t("event.left_in_sync")}</li><li>✕ ${t("event.partition")}</li><li>○ ${t("event.healed")}</li></ul><//>
        <${Panel} id="events" title=${t("timeline.events")} wide>
          <div id="events-kind"><${Field} label=${t("timeline.kind")} name="kind" options=${[["", t("timeline.every")], ...KINDS.map((each) => [each, t(`event.${each}`)])]} onChange=${(event) => setKind(event.target.value)} /></div>
          <${Days} events=${shown} />
        <//>
      </div>`}`;
}
