// Limits page: limits of vhosts and of users.
import { Panel, Refusal } from "../components/basics.js";
import { Field, Folded, Form } from "../components/forms.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { useVhosts } from "../components/vhosts.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

function LimitTable({ id, where, title, of, limits, targets }) {
  const { data, error, reload } = useFetch(where);
  const rows = (data || []).flatMap((each) => Object.entries(each.value).map(([limit, value]) => ({ target: each[of], limit, value })));
  const save = async (fields) => {
    const done = await act(put(path(where, fields.target, fields.limit), { value: Math.trunc(Number(fields.value)) }), t("limit.saved"));
    if (done) reload();
    return Boolean(done);
  };
  const clear = async (row) => {
    if (await act(remove(path(where, row.target, row.limit)), t("limit.cleared"))) reload();
  };
  return html`<${Panel} id=${id} title=${title}>
    <${Refusal} error=${error} />
    <${Table} caption=${title} rows=${rows} keyOf=${(row) => JSON.stringify([row.target, row.limit])} empty=${t("limit.none")} columns=${[
      { id: "target", label: t(`common.${of}`), head: true, cell: (row) => html`<span class="name">${row.target}</span>` },
      { id: "limit", label: t("limit.kind"), cell: (row) => html`<code>${row.limit}</code>` },
      { id: "value", label: t("common.value"), numeric: true, cell: (row) => count(row.value) },
      { id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" onClick=${() => clear(row)}>${t("limit.clear")}</button>` },
    ]} />
    <${Folded} title=${t("limit.set")}><${Form} label=${`${title}: ${t("limit.set")}`} button=${t("common.save")} onSubmit=${save}>
      <${Field} label=${t(`common.${of}`)} name="target" options=${targets} />
      <${Field} label=${t("limit.kind")} name="limit" options=${limits} />
      <${Field} label=${t("common.value")} name="value" type="number" required hint=${t("limit.hint")} />
    <//><//>
  <//>`;
}

export function Limits() {
  const users = useFetch("users");
  return html`<div class="panels">
    <${LimitTable} id="vhost-limits" where="vhost-limits" of="vhost" title=${t("limit.vhosts")} limits=${["max-connections", "max-queues"]} targets=${useVhosts()} />
    <${LimitTable} id="user-limits" where="user-limits" of="user" title=${t("limit.users")} limits=${["max-connections", "max-channels"]} targets=${(users.data || []).map((each) => each.name)} />
  </div>`;
}
