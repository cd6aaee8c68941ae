// Page of one exchange: properties, bindings, and a form that publishes a message.
import { Arguments, Badge, Facts, Panel, Refusal } from "../components/basics.js";
import { BindForm, BindingTable } from "../components/bindings.js";
import { Breakdown } from "../components/breakdown.js";
import { confirmed } from "../components/dialog.js";
import { act } from "../components/notices.js";
import { exchangeCharts, Traffic } from "../components/traffic.js";
import { PublishForm } from "../components/publish.js";
import { path, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { count, NOTHING } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { rateOf, ratesShown } from "../lib/rates.js";
import { useRights } from "../lib/rights.js";
import { go, to } from "../lib/router.js";
import { Features } from "./exchanges.js";

const ASK_EVERY_S = 5;

const sofar = (row, name) => (ratesShown() ? t("unit.sofar", { rate: rateOf(row, name), n: count(row.message_stats?.[name] ?? 0) }) : NOTHING);

export function Exchange({ vhost, name }) {
  const where = path("exchanges", vhost, name);
  const { data, error } = useFetch(where, {}, { every: ASK_EVERY_S });
  const rights = useRights(vhost, name);
  const isDefault = name === "amq.default";
  const shown = isDefault ? t("exchange.default") : name;
  const drop = async () => {
    if (!await confirmed(t("exchange.delete"), t("exchange.deleteText", { name }), t("common.delete"))) return;
    if (await act(remove(where), t("exchange.deleted", { name }))) go("exchanges");
  };
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("exchanges")}>${t("place.exchanges")}</a></nav>
    <h1 class="name">${shown} <small class="soft">${t("common.inVhost", { vhost })}</small></h1>
    <${Refusal} error=${error} />
    ${data && html`<div class="panels">
      <${Panel} id="facts" title=${t("common.details")} actions=${rights.configure && !name.startsWith("amq.") && html`<button type="button" class="button danger" onClick=${drop}>${t("common.delete")}</button>`}>
        <${Facts} rows=${[
          [t("common.type"), html`<${Badge} tone="accent">${data.type}<//>`], [t("common.features"), html`<${Features} row=${data} />`],
          [t("common.policy"), data.policy || t("common.none")], [t("common.arguments"), html`<${Arguments} value=${data.arguments} />`],
          [t("exchange.in"), sofar(data, "publish_in")], [t("exchange.out"), sofar(data, "publish_out")],
        ]} />
      <//>
      ${rights.write && html`<${Panel} id="publish" title=${t("publish.title")}>${data.internal ? html`<p class="nothing">${t("exchange.isInternal")}</p>` : html`<${PublishForm} vhost=${vhost} exchange=${name} />`}<//>`}
      <${Traffic} where=${where} columns="message_stats" charts=${exchangeCharts()} />
      <${Breakdown} parts=${[
        [t("breakdown.incoming"), t("channel.name"), data.incoming, ["publish"]],
        [t("breakdown.outgoing"), t("queue.name"), data.outgoing, ["publish"]],
      ]} />
      <${Panel} id="bindings" title=${t("binding.title")} wide>
        ${isDefault ? html`<p class="nothing">${t("exchange.defaultText")}</p>` : html`
          <h3>${t("binding.outgoing")}</h3>
          <${BindingTable} where=${`${where}/bindings/source`} vhost=${vhost} caption=${t("binding.outgoing")} showDestination canUnbind=${rights.read} />
          <h3>${t("binding.incoming")}</h3>
          <${BindingTable} where=${`${where}/bindings/destination`} vhost=${vhost} caption=${t("binding.incoming")} showSource canUnbind=${rights.write} />
          ${rights.read && html`<${BindForm} vhost=${vhost} fixed=${{ source: name }} />`}`}
      <//>
    </div>`}`;
}
