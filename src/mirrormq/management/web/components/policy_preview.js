// Preview of a policy: the node lists the queues and exchanges that its pattern matches, while the user types it.
import { get } from "../lib/api.js";
import { count } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Badge } from "./basics.js";

const TYPING_MS = 250;

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

export function PolicyPreview({ vhost, asked, operator }) {
  const preview = usePreview(vhost, asked);
  return html`<section class="preview wide" aria-label=${t("preview.title")} aria-live="polite">
    <h3>${t("preview.title")}</h3>
    ${preview?.error && html`<p class="refusal">${preview.error.message}</p>`}
    ${preview?.found && html`<div class="preview-kinds"><${Matches} kind="queues" found=${preview.found.queues} operator=${operator} /><${Matches} kind="exchanges" found=${preview.found.exchanges} operator=${operator} /></div>
      ${!preview.found.complete && html`<p class="refusal">${t("preview.incomplete")}</p>`}`}
  </section>`;
}
