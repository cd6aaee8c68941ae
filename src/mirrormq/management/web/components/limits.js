// Table of limits, of all vhosts or users, or of one, with a form that sets them.
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Panel, Refusal } from "./basics.js";
import { Field, Folded, Form } from "./forms.js";
import { act } from "./notices.js";
import { Table } from "./table.js";

export const VHOST_LIMITS = ["max-connections", "max-queues"];
export const USER_LIMITS = ["max-connections", "max-channels"];

// `target` limits the table to one vhost or user; `targets` are the choices of the form otherwise.
export function LimitPanel({ id, where, title, of, limits, target, targets }) {
  const { data, error, reload } = useFetch(where);
  const rows = data?.filter((each) => target === undefined || each[of] === target)
    .flatMap((each) => Object.entries(each.value).map(([limit, value]) => ({ target: each[of], limit, value })));
  const save = async (fields) => {
    const done = await act(put(path(where, target ?? fields.target, fields.limit), { value: Math.trunc(Number(fields.value)) }), t("limit.saved"));
    if (done) reload();
    return Boolean(done);
  };
  const clear = async (row) => {
    if (await act(remove(path(where, row.target, row.limit)), t("limit.cleared"))) reload();
  };
  return html`<${Panel} id=${id} title=${title}>
    <${Refusal} error=${error} />
    <${Table} caption=${title} rows=${rows} keyOf=${(row) => JSON.stringify([row.target, row.limit])} empty=${t("limit.none")} columns=${[
      target === undefined && { id: "target", label: t(`common.${of}`), head: true, cell: (row) => html`<span class="name">${row.target}</span>` },
      { id: "limit", label: t("limit.kind"), head: target !== undefined, cell: (row) => html`<code>${row.limit}</code>` },
      { id: "value", label: t("common.value"), numeric: true, cell: (row) => count(row.value) },
      { id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" onClick=${() => clear(row)}>${t("limit.clear")}</button>` },
    ]} />
    <${Folded} title=${t("limit.set")}><${Form} label=${`${title}: ${t("limit.set")}`} button=${t("common.save")} onSubmit=${save}>
      ${target === undefined && html`<${Field} label=${t(`common.${of}`)} name="target" options=${targets} />`}
      <${Field} label=${t("limit.kind")} name="limit" options=${limits} />
      <${Field} label=${t("common.value")} name="value" type="number" required hint=${t("limit.hint")} />
    <//><//>
  <//>`;
}
