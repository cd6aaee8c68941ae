// Policies page with a preview: while the user types a pattern, the node lists the queues and exchanges that it matches.
import { Arguments, Badge, Panel, Refusal } from "../components/basics.js";
import { confirmed } from "../components/dialog.js";
import { ArgumentsField, argumentsOf, Field, Folded, Form } from "../components/forms.js";
import { act, say } from "../components/notices.js";
import { Table } from "../components/table.js";
import { useVhosts } from "../components/vhosts.js";
import { get, path, put, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { isAdministrator } from "../lib/session.js";

const TYPING_MS = 250;
const KEYS = [
  "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure", "ha-orphans", "ha-redeliver",
  "queue-master-locator", "message-ttl", "expires", "max-length", "max-length-bytes", "overflow", "dead-letter-exchange",
  "dead-letter-routing-key", "queue-mode", "alternate-exchange",
];
const OPERATOR_KEYS = ["expires", "message-ttl", "max-length", "max-length-bytes"];
const APPLY_TO = ["all", "queues", "exchanges"];

function usePreview(vhost, asked) {
  const [preview, setPreview] = useState(null);
  const key = JSON.stringify([vhost, asked]);
  useEffect(() => {
    const controller = new AbortController();
    const timer = setTimeout(() => {
      get(`mirrormq/matching/${encodeURIComponent(vhost)}`, asked, controller.signal)
        .then((found) => setPreview({ found }), (error) => error.name !== "AbortError" && setPreview({ error }));
    }, TYPING_MS);
    return () => { clearTimeout(timer); controller.abort(); };
  }, [key]);
  return preview;
}

function Matches({ kind, found, operator }) {
  if (!found) return null;
  const hidden = found.total - found.items.length;
  return html`<div><h4>${t(`preview.${kind}`, { n: count(found.total) })}</h4>
    ${found.items.length > 0 && html`<ul class="matches">${found.items.map((item) => html`<li key=${item.name}><span class="name">${item.name}</span>${
      !operator && !item.governed && html` <${Badge} tone="warn">${t("preview.kept")}<//>`}</li>`)}</ul>`}
    ${hidden > 0 && html`<p class="soft">${t("preview.more", { n: count(hidden) })}</p>`}</div>`;
}

function Preview({ vhost, asked, operator }) {
  const preview = usePreview(vhost, asked);
  return html`<section class="preview wide" aria-label=${t("preview.title")} aria-live="polite">
    <h3>${t("preview.title")}</h3>
    ${preview?.error && html`<p class="refusal">${preview.error.message}</p>`}
    ${preview?.found && html`<div class="preview-kinds"><${Matches} kind="queues" found=${preview.found.queues} operator=${operator} /><${Matches} kind="exchanges" found=${preview.found.exchanges} operator=${operator} /></div>
      ${!preview.found.complete && html`<p class="refusal">${t("preview.incomplete")}</p>`}`}
  </section>`;
}

// Operator policies apply to queues, and override policies of any priority.
function PolicyForm({ where, label, onDone }) {
  const operator = where === "operator-policies";
  const choices = operator ? ["queues"] : APPLY_TO;
  const vhosts = useVhosts();
  const [asked, setAsked] = useState({ vhost: "/", name: "", pattern: "", applyTo: choices[0], priority: "0" });
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
  return html`<${Form} label=${label} button=${t("common.save")} onSubmit=${save}>
    <${Field} label=${t("common.vhost")} name="vhost" options=${vhosts} onChange=${(event) => setAsked({ ...asked, vhost: event.target.value })} />
    <${Field} label=${t("common.name")} name="name" required value=${asked.name} ...${listen("name")} />
    <${Field} label=${t("policy.pattern")} name="pattern" required value=${asked.pattern} ...${listen("pattern")} hint=${t("policy.patternHint")} />
    <${Field} label=${t("policy.applyTo")} name="applyTo" value=${choices[0]} options=${choices.map((each) => [each, t(`applyTo.${each}`)])} onChange=${(event) => setAsked({ ...asked, applyTo: event.target.value })} />
    <${Field} label=${t("policy.priority")} name="priority" type="number" value=${asked.priority} ...${listen("priority")} />
    <${ArgumentsField} label=${t("policy.definition")} name="definition" suggestions=${operator ? OPERATOR_KEYS : KEYS} />
    ${asked.pattern && html`<${Preview} vhost=${vhost} operator=${operator} asked=${{ pattern: asked.pattern, "apply-to": asked.applyTo, name: asked.name, priority: String(Math.trunc(Number(asked.priority)) || 0) }} />`}
  <//>`;
}

function PolicyTable({ where, title, id, fixed, children }) {
  const { data, error, reload } = useFetch(where);
  const drop = async (row) => {
    if (!await confirmed(t("policy.delete"), t("policy.deleteText", { name: row.name }), t("common.delete"))) return;
    if (await act(remove(path(where, row.vhost, row.name)), t("policy.deleted", { name: row.name }))) reload();
  };
  return html`<${Panel} id=${id} title=${title} wide>
    <${Refusal} error=${error} />
    <${Table} caption=${title} rows=${data || []} keyOf=${(row) => JSON.stringify([row.vhost, row.name])} empty=${t("policy.none")} columns=${[
      { id: "name", label: t("common.name"), head: true, cell: (row) => html`<span class="name">${row.name}</span>` },
      { id: "vhost", label: t("common.vhost"), cell: (row) => row.vhost },
      { id: "pattern", label: t("policy.pattern"), cell: (row) => html`<code>${row.pattern}</code>` },
      { id: "apply", label: t("policy.applyTo"), cell: (row) => t(`applyTo.${row["apply-to"]}`) },
      { id: "definition", label: t("policy.definition"), cell: (row) => html`<${Arguments} value=${row.definition} />` },
      { id: "priority", label: t("policy.priority"), numeric: true, cell: (row) => row.priority },
      !fixed && { id: "actions", label: t("common.actions"), cell: (row) => html`<button type="button" class="button quiet" onClick=${() => drop(row)}>${t("common.delete")}</button>` },
    ]} />
    ${children?.(reload)}
  <//>`;
}

const Adding = ({ where, label, onDone }) => html`<${Folded} title=${label}><${PolicyForm} where=${where} label=${label} onDone=${onDone} /><//>`;

export function Policies({ user }) {
  const operators = isAdministrator(user) && ((reload) => html`<${Adding} where="operator-policies" label=${t("policy.addOperator")} onDone=${reload} />`);
  return html`<${PolicyTable} id="policies" where="policies" title=${t("admin.policies")}>${(reload) => html`<${Adding} where="policies" label=${t("policy.add")} onDone=${reload} />`}<//>
    <${PolicyTable} id="operator-policies" where="operator-policies" title=${t("policy.operator")} fixed=${!operators}>${operators || null}<//>`;
}
