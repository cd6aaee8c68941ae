// Confirmation dialog: the browser's modal dialog, which keeps the focus inside and closes with Escape.
import { html, useEffect, useRef } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Store, useStore } from "../lib/store.js";

const asking = new Store({ question: null });

// Return a promise of true or false.
export function confirmed(title, text, button) {
  return new Promise((resolve) => asking.set({ question: { title, text, button, resolve } }));
}

// Return a promise of the text that the user leaves in a field; false if the user cancels.
export function entered(title, text, button, { label, value }) {
  return new Promise((resolve) => asking.set({ question: { title, text, button, field: { label, value }, resolve } }));
}

export function Dialog() {
  const question = useStore(asking, (value) => value.question);
  const shown = useRef(null);
  const input = useRef(null);
  useEffect(() => {
    if (question && shown.current && !shown.current.open) shown.current.showModal();
  }, [question]);
  if (!question) return null;
  const answer = (value) => {
    shown.current.close();
    asking.set({ question: null });
    question.resolve(value);
  };
  const agree = () => answer(question.field ? input.current.value : true);
  return html`<dialog ref=${shown} class="dialog" aria-labelledby="dialog-title" aria-describedby="dialog-text"
      onCancel=${(event) => { event.preventDefault(); answer(false); }}>
    <h2 id="dialog-title">${question.title}</h2>
    <p id="dialog-text">${question.text}</p>
    ${question.field && html`<div class="field"><label for="dialog-field">${question.field.label}</label>
      <input id="dialog-field" ref=${input} autocomplete="off" defaultValue=${question.field.value} onKeyDown=${(event) => { if (event.key === "Enter") agree(); }} /></div>`}
    <div class="dialog-actions">
      <button type="button" class="button" onClick=${() => answer(false)}>${t("common.cancel")}</button>
      <button type="button" class="button danger" onClick=${agree}>${question.button}</button>
    </div>
  </dialog>`;
}
