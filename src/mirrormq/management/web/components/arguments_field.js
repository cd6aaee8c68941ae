// Rows of name, value and type for arguments and definitions, with a button per known key and its hint.
//
// Fields are named `${name}.0.key`, …; `argumentsOf` reads them back.
import { hintOf } from "../lib/hints.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { useId } from "./forms.js";

const TYPES = ["string", "number", "boolean", "json"];

export function typed(type, text) {
  if (type === "number") {
    const number = Number(text);
    if (text.trim() === "" || !Number.isFinite(number)) throw new Error(t("form.notNumber", { text }));
    return number;
  }
  if (type === "boolean") {
    const word = text.trim().toLowerCase();
    if (word !== "true" && word !== "false") throw new Error(t("form.notBoolean", { text }));
    return word === "true";
  }
  if (type === "json") {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(t("form.notJson", { text }));
    }
  }
  return text;
}

const rowOf = ([key, value]) => ({
  key, value: typeof value === "object" ? JSON.stringify(value) : String(value), type: typeof value === "object" ? "json" : typeof value,
});

function Row({ row, index, name, list, onChange, onRemove }) {
  const hint = hintOf(row.key);
  const id = useId("hint");
  const at = `${name}.${row.id}`;
  return html`<div class="argument-row">
    <input name=${`${at}.key`} list=${list} value=${row.key} aria-describedby=${hint ? id : undefined} aria-label=${t("form.argumentName", { n: index + 1 })} placeholder=${t("common.name")} autocomplete="off" onInput=${(event) => onChange({ key: event.target.value })} />
    <input name=${`${at}.value`} value=${row.value} aria-label=${t("form.argumentValue", { n: index + 1 })} placeholder=${t("common.value")} autocomplete="off" onInput=${(event) => onChange({ value: event.target.value })} />
    <select name=${`${at}.type`} aria-label=${t("form.argumentType", { n: index + 1 })} onChange=${(event) => onChange({ type: event.target.value })}>
      ${TYPES.map((type) => html`<option key=${type} value=${type} selected=${type === row.type}>${t(`form.type.${type}`)}</option>`)}</select>
    <button type="button" class="button quiet" aria-label=${t("form.removeArgument", { n: index + 1 })} onClick=${onRemove}>×</button>
    ${hint && html`<small id=${id} class="soft argument-hint">${hint}</small>`}
  </div>`;
}

export function ArgumentsField({ label, name, hints = [], initial }) {
  const list = useId("arguments");
  const first = () => [...Object.entries(initial || {}).map(rowOf), {}].map((row, id) => ({ key: "", value: "", type: "string", ...row, id }));
  const [rows, setRows] = useState(first);
  const fieldset = useRef(null);
  useEffect(() => { // A form that was sent is cleared.
    const { form } = fieldset.current;
    const clear = () => setRows(first());
    form?.addEventListener("reset", clear);
    return () => form?.removeEventListener("reset", clear);
  }, []);
  const change = (id, patch) => setRows(rows.map((row) => {
    if (row.id !== id) return row;
    const hint = patch.key !== undefined && hints.find((each) => each.key === patch.key);
    return { ...row, ...(hint && { type: hint.type }), ...patch }; // A known key brings its type.
  }));
  const add = (row = {}) => {
    const used = rows.filter((each) => each.key || each.value);
    setRows([...used, { key: "", value: "", type: "string", ...row, id: Math.max(-1, ...rows.map((each) => each.id)) + 1 }]);
  };
  const free = hints.filter((hint) => !rows.some((row) => row.key === hint.key));
  return html`<fieldset ref=${fieldset} class="arguments-field wide"><legend>${label}</legend>
    <datalist id=${list}>${hints.map((hint) => html`<option key=${hint.key} value=${hint.key} />`)}</datalist>
    ${rows.map((row, index) => html`<${Row} key=${row.id} row=${row} index=${index} name=${name} list=${list} onChange=${(patch) => change(row.id, patch)} onRemove=${() => setRows(rows.filter((each) => each.id !== row.id))} />`)}
    <button type="button" class="button quiet" onClick=${() => add()}>${t("form.addArgument")}</button>
    ${free.length > 0 && html`<div class="chips" role="group" aria-label=${t("form.hints")}>${free.map((hint) => html`<button type="button" key=${hint.key} class="chip" title=${hintOf(hint.key)} onClick=${() => add(hint)}>${hint.key}</button>`)}</div>`}
  </fieldset>`;
}

export function argumentsOf(fields, name) {
  const found = {};
  for (const key of Object.keys(fields)) {
    const match = new RegExp(`^${name}\\.(\\d+)\\.key$`).exec(key);
    if (!match || !fields[key].trim()) continue;
    const at = `${name}.${match[1]}`;
    found[fields[key].trim()] = typed(fields[`${at}.type`], fields[`${at}.value`]);
  }
  return found;
}
