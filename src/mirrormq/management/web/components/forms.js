// Labelled inputs, and forms that return their fields as an object.
import { html, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";

let next = 1;
export function useId(prefix) {
  const id = useRef(null);
  if (id.current === null) {
    id.current = `${prefix}-${next}`;
    next += 1;
  }
  return id.current;
}

export function Field({ label, hint, name, type = "text", value, required, options, rows, wide, ...rest }) {
  const id = useId("field");
  const described = hint ? `${id}-hint` : undefined;
  // Typed text survives a new render: only a controlled field gets a value from us.
  const written = options || value === undefined ? {} : rest.onInput ? { value } : { defaultValue: value };
  const shared = { id, name, required, "aria-describedby": described, ...written, ...rest };
  let input = html`<input type=${type} autocomplete="off" spellcheck=${false} ...${shared} />`;
  if (options) {
    input = html`<select ...${shared}>${options.map((option) => {
      const [key, text] = Array.isArray(option) ? option : [option, option];
      return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
    })}</select>`;
  } else if (rows) {
    input = html`<textarea rows=${rows} spellcheck=${false} ...${shared}></textarea>`;
  }
  return html`<div class=${`field${wide ? " wide" : ""}`}><label for=${id}>${label}${required && html` <span class="soft" aria-hidden="true">*</span>`}</label>
    ${input}${hint && html`<small id=${described} class="soft">${hint}</small>`}</div>`;
}

export function Check({ label, name, checked, ...rest }) {
  const id = useId("check");
  return html`<div class="check"><input type="checkbox" id=${id} name=${name} defaultChecked=${checked} ...${rest} /><label for=${id}>${label}</label></div>`;
}

// `onSubmit(fields)` may return a promise; true clears the form.
export function Form({ onSubmit, button, children, label, inline, tone = "primary" }) {
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  const submit = async (event) => {
    event.preventDefault();
    if (busy) return;
    const fields = {};
    for (const [name, value] of new FormData(form.current)) fields[name] = value;
    setBusy(true);
    try {
      if (await onSubmit(fields)) form.current?.reset();
    } finally {
      setBusy(false);
    }
  };
  return html`<form ref=${form} class=${inline ? "form inline" : "form"} aria-label=${label} onSubmit=${submit}>
    ${children}
    <div class="form-actions"><button type="submit" class=${`button ${tone}`} disabled=${busy}>${button}</button></div>
  </form>`;
}

// Form that is collapsed until the user opens it.
export function Folded({ title, children, open = false }) {
  return html`<details class="folded" open=${open}><summary>${title}</summary><div class="folded-inside">${children}</div></details>`;
}

const TYPES = ["string", "number", "boolean", "json"];

export function typed(type, text) {
  if (type === "number") {
    const number = Number(text);
    if (text.trim() === "" || !Number.isFinite(number)) throw new Error(t("form.notNumber", { text }));
    return number;
  }
  if (type === "boolean") return text.trim().toLowerCase() === "true";
  if (type === "json") {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error(t("form.notJson", { text }));
    }
  }
  return text;
}

// Rows of name, value and type. Fields are named `${name}.0.key`, …; `argumentsOf` reads them back.
export function ArgumentsField({ label, name, suggestions = [], initial }) {
  const id = useId("arguments");
  const given = Object.entries(initial || {}).map(([key, value]) => ({
    key, value: typeof value === "object" ? JSON.stringify(value) : String(value),
    type: typeof value === "object" ? "json" : typeof value,
  }));
  const [rows, setRows] = useState([...given, {}].map((row, index) => ({ ...row, id: index })));
  const more = () => setRows([...rows, { id: rows.length ? Math.max(...rows.map((row) => row.id)) + 1 : 0 }]);
  return html`<fieldset class="arguments-field wide"><legend>${label}</legend>
    <datalist id=${id}>${suggestions.map((each) => html`<option key=${each} value=${each} />`)}</datalist>
    ${rows.map((row, index) => html`<div class="argument-row" key=${row.id}>
      <input name=${`${name}.${row.id}.key`} list=${id} defaultValue=${row.key} aria-label=${t("form.argumentName", { n: index + 1 })} placeholder=${t("common.name")} autocomplete="off" />
      <input name=${`${name}.${row.id}.value`} defaultValue=${row.value} aria-label=${t("form.argumentValue", { n: index + 1 })} placeholder=${t("common.value")} autocomplete="off" />
      <select name=${`${name}.${row.id}.type`} aria-label=${t("form.argumentType", { n: index + 1 })}>
        ${TYPES.map((type) => html`<option key=${type} value=${type} selected=${type === (row.type || "string")}>${t(`form.type.${type}`)}</option>`)}</select>
      <button type="button" class="button quiet" aria-label=${t("form.removeArgument", { n: index + 1 })} onClick=${() => setRows(rows.filter((each) => each.id !== row.id))}>×</button>
    </div>`)}
    <button type="button" class="button quiet" onClick=${more}>${t("form.addArgument")}</button>
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
