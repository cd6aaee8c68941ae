// Page of one vhost: traffic, description, tracing, permissions and limits.
import { Arguments, Badge, Facts, Panel, Refusal, Stat, Stats } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Check, Field, Folded, Form } from "../components/forms.js";
import { LimitPanel, VHOST_LIMITS } from "../components/limits.js";
import { act } from "../components/notices.js";
import { PermissionPanel, TopicPermissionPanel } from "../components/permission_tables.js";
import { Traffic, vhostCharts } from "../components/traffic.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { short } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { choose } from "../lib/preferences.js";
import { rateOf } from "../lib/rates.js";
import { go, to } from "../lib/router.js";

const EVERY_S = 2;
const HISTORY_COLUMNS = "message_stats,messages_details,messages_ready_details,messages_unacknowledged_details,recv_oct_details,send_oct_details";

export function VhostPage({ name }) {
  const where = path("vhosts", name);
  const { data, error, reload } = useFetch(where, {}, { every: EVERY_S });
  const update = async (fields) => {
    const body = { description: fields.description, tags: fields.tags, tracing: fields.tracing === "on" };
    if (await act(put(where, body), t("vhost.saved", { name }))) reload();
  };
  const drop = async () => {
    if (!await confirmed(t("vhost.delete"), t("vhost.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(where), t("vhost.deleted", { name }))) go("admin", "vhosts");
  };
  const showOnly = () => { choose("vhost", name); go("queues"); };
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("admin", "vhosts")}>${t("admin.vhosts")}</a></nav>
    <div class="page-head"><h1 class="name">${name}</h1>
      ${data && html`<div class="buttons"><button type="button" class="button" onClick=${showOnly}>${t("vhost.showOnly")}</button>
        <button type="button" class="button danger" onClick=${drop}>${t("common.delete")}</button></div>`}</div>
    <${Refusal} error=${error} />
    ${data && html`<${Stats}>
        <${Stat} label=${t("number.messages_ready")} value=${short(data.messages_ready ?? 0)} tone="ready" />
        <${Stat} label=${t("number.messages_unacknowledged")} value=${short(data.messages_unacknowledged ?? 0)} tone="unacked" />
        <${Stat} label=${t("number.publish")} value=${rateOf(data, "publish")} tone="publish" />
        <${Stat} label=${t("number.deliver_get")} value=${rateOf(data, "deliver_get")} tone="deliver" />
      <//>
      <div class="panels">
        <${Panel} id="facts" title=${t("common.details")} wide><${Facts} rows=${[
            [t("vhost.description"), data.description || t("common.none")],
            [t("user.tags"), data.tags.length ? data.tags.map((tag) => html`<${Badge} key=${tag}>${tag}<//>`) : t("common.none")],
            [t("vhost.tracing"), data.tracing ? t("common.yes") : t("common.no")],
            [t("vhost.states"), html`<${Arguments} value=${data.cluster_state} />`],
          ]} />
          <${Folded} title=${t("vhost.update")}><${Form} key=${JSON.stringify([data.description, data.tags, data.tracing])} label=${t("vhost.update")} button=${t("common.save")} onSubmit=${update}>
            <${Field} label=${t("vhost.description")} name="description" value=${data.description} />
            <${Field} label=${t("user.tags")} name="tags" value=${data.tags.join(", ")} hint=${t("vhost.tagsHint")} />
            <div class="checks"><${Check} label=${t("vhost.tracing")} name="tracing" checked=${data.tracing} /></div>
          <//><//>
        <//>
        <${Traffic} where=${where} columns=${HISTORY_COLUMNS} charts=${vhostCharts()} />
      </div>
      <${PermissionPanel} of=${{ vhost: name }} />
      <${TopicPermissionPanel} of=${{ vhost: name }} />
      <${LimitPanel} id="limits" title=${t("admin.limits")} where="vhost-limits" of="vhost" target=${name} limits=${VHOST_LIMITS} />`}`;
}
