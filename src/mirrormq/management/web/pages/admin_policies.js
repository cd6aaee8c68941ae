// Policies page: lists, a form that adds or edits a policy, and a preview of the names that its pattern matches.
import { ArgumentsField, argumentsOf } from "../components/arguments_field.js";
import { Arguments, Panel } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { Field, Folded, Form } from "../components/forms.js";
import { Listing } from "../components/listing.js";
import { act, say } from "../components/notices.js";
import { PolicyPreview } from "../components/policy_preview.js";
import { useChosenVhost, useVhosts } from "../components/vhosts.js";
import { useWholeListing } from "../components/whole_listing.js";
import { path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { OPERATOR_HINTS, POLICY_HINTS } from "../lib/hints.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { isAdministrator } from "../lib/session.js";

const APPLY_TO = ["all", "queues", "exchanges"];
const EMPTY = { name: "", pattern: "", priority: 0, definition: {} };

// Operator policies apply to queues, and override policies of any priority.
function PolicyForm({ where, label, policy = EMPTY, onDone }) {
  const operator = where === "operator-policies";
  const choices = operator ? ["queues"] : APPLY_TO;
  const vhosts = useVhosts();
  const chosen = useChosenVhost();
  const [asked, setAsked] = useState({ vhost: policy.vhost ?? chosen, name: policy.name, pattern: policy.pattern, applyTo: policy["apply-to"] ?? choices[0], priority: String(policy.priority) });
  const listen = (name) => ({ onInput: (event) => setAsked({ ...asked, [name]: event.target.value }) });
  const vhost = vhosts.includes(asked.vhost) ? asked.vhost : vhosts[0];
  const save = async (fields) => {
    try {
      const body = { pattern: fields.pattern, "apply-to": fields.applyTo, priority: Number(fields.priority) || 0, definition: argumentsOf(fields, "definition") };
      const done = await act(put(path(where, fields.vhost, fields.name), body), t("policy.saved", { name: fields.name }));
      if (done) onDone();
    } catch (error) {
      say(error.message, "bad");
    }
  };
  const preview = { pattern: asked.pattern, "apply-to": asked.applyTo, name: asked.name, priority: String(Math.trunc(Number(asked.priority)) || 0) };
  return html`<${Form} label=${label} button=${t("common.save")} onSubmit=${save}>
    <${Field} label=${t("common.vhost")} name="vhost" options=${vhosts} value=${vhost} onChange=${(event) => setAsked({ ...asked, vhost: event.target.value })} />
    <${Field} label=${t("common.name")} name="name" required value=${asked.name} ...${listen("name")} />
    <${Field} label=${t("policy.pattern")} name="pattern" required value=${asked.pattern} ...${listen("pattern")} hint=${t("policy.patternHint")} />
    <${Field} label=${t("policy.applyTo")} name="applyTo" value=${asked.applyTo} options=${choices.map((each) => [each, t(`applyTo.${each}`)])} onChange=${(event) => setAsked({ ...asked, applyTo: event.target.value })} />
    <${Field} label=${t("policy.priority")} name="priority" type="number" value=${asked.priority} ...${listen("priority")} hint=${t("policy.priorityHint")} />
    <${ArgumentsField} label=${t("policy.definition")} name="definition" hints=${operator ? OPERATOR_HINTS : POLICY_HINTS} initial=${policy.definition} />
    ${asked.pattern && html`<${PolicyPreview} vhost=${vhost} operator=${operator} asked=${preview} />`}
  <//>`;
}

function PolicyTable({ where, title, addLabel, id, mayEdit }) {
  const answer = useFetch(where);
  const { reload } = answer;
  const chosen = useChosenVhost();
  const [editing, setEditing] = useState(null);
  const shown = answer.data && answer.data.filter((row) => !chosen || row.vhost === chosen);
  const listing = useWholeListing(where, { ...answer, data: shown }, where === "policies" ? "" : "operator-");
  const drop = async (row) => {
    if (!await confirmed(t("policy.delete"), t("policy.deleteText", { name: row.name }), t("common.delete"))) return;
    if (await act(remove(path(where, row.vhost, row.name)), t("policy.deleted", { name: row.name }))) reload();
  };
  const done = () => { setEditing(null); reload(); };
  return html`<${Panel} id=${id} title=${title} wide>
    <${Listing} listing=${listing} caption=${title} keyOf=${(row) => JSON.stringify([row.vhost, row.name])} empty=${t("policy.none")} columns=${[
      { id: "name", label: t("common.name"), sort: "name", head: true, cell: (row) => html`<span class="name">${row.name}</span>` },
      { id: "vhost", label: t("common.vhost"), sort: "vhost", cell: (row) => row.vhost },
      { id: "pattern", label: t("policy.pattern"), sort: "pattern", cell: (row) => html`<code>${row.pattern}</code>` },
      { id: "apply", label: t("policy.applyTo"), cell: (row) => t(`applyTo.${row["apply-to"]}`) },
      { id: "definition", label: t("policy.definition"), cell: (row) => html`<${Arguments} value=${row.definition} />` },
      { id: "priority", label: t("policy.priority"), sort: "priority", numeric: true, cell: (row) => row.priority },
      mayEdit && { id: "actions", short: true, label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" aria-label=${t("policy.editOf", { name: row.name })} onClick=${() => setEditing(row)}>${t("common.edit")}</button>
        <button type="button" class="button quiet" aria-label=${t("policy.deleteOf", { name: row.name })} onClick=${() => drop(row)}>${t("common.delete")}</button>` },
    ]} />
    ${editing && html`<section class="editing" aria-label=${t("policy.editOf", { name: editing.name })}><h3>${t("policy.editOf", { name: editing.name })}</h3>
      <${PolicyForm} key=${JSON.stringify(editing)} where=${where} label=${t("policy.editOf", { name: editing.name })} policy=${editing} onDone=${done} />
      <button type="button" class="button quiet" onClick=${() => setEditing(null)}>${t("common.cancel")}</button></section>`}
    ${mayEdit && html`<${Folded} title=${addLabel}><${PolicyForm} where=${where} label=${addLabel} onDone=${done} /><//>`}
  <//>`;
}

export function Policies({ user }) {
  return html`<${PolicyTable} id="policies" where="policies" title=${t("admin.policies")} addLabel=${t("policy.add")} mayEdit />
    <${PolicyTable} id="operator-policies" where="operator-policies" title=${t("policy.operator")} addLabel=${t("policy.addOperator")} mayEdit=${isAdministrator(user)} />`;
}
