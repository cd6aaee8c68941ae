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
