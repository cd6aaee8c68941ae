// Definitions page: export to a file, and import with a preview of the changes.
import { Badge, Panel } from "../components/basics.js";
import { Check, Field, Form } from "../components/forms.js";
import { act, say } from "../components/notices.js";
import { useVhosts } from "../components/vhosts.js";
import { get, path, request } from "../lib/api.js";
import { count } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const EFFECTS = ["added", "changed", "kept", "same"];
const TONES = { added: "good", changed: "warn", kept: "plain", same: "plain" };

const whereOf = (vhost) => (vhost ? path("definitions", vhost) : "definitions");

// Hand a text to the browser as a file.
function download(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

function VhostChoice({ vhosts }) {
  return html`<${Field} label=${t("common.vhost")} name="vhost" options=${[["", t("frame.allVhosts")], ...vhosts]} />`;
}

function Export({ vhosts }) {
  const save = async (fields) => {
    const found = await act(get(whereOf(fields.vhost)));
    if (found) download(`${JSON.stringify(found, null, 2)}\n`, fields.file || "definitions.json");
  };
  return html`<${Panel} id="export" title=${t("definitions.export")}><p class="soft">${t("definitions.exportText")}</p>
    <${Form} label=${t("definitions.export")} button=${t("definitions.download")} onSubmit=${save}>
      <${VhostChoice} vhosts=${vhosts} /><${Field} label=${t("definitions.fileName")} name="file" value="definitions.json" />
    <//><//>`;
}

function Changes({ kinds }) {
  const rows = kinds.filter((kind) => EFFECTS.some((effect) => kind[effect] > 0));
  if (!rows.length) return html`<p class="nothing">${t("definitions.empty")}</p>`;
  return html`<ul class="changes">${rows.map((kind) => html`<li key=${kind.kind}>
    <h4>${t(`definitions.kind.${kind.kind}`)} ${EFFECTS.filter((effect) => kind[effect] > 0).map((effect) => html`<${Badge} key=${effect} tone=${TONES[effect]}>${t(`definitions.${effect}`, { n: count(kind[effect]) })}<//> `)}</h4>
    ${kind.items.length > 0 && html`<ul class="matches">${kind.items.map((item) => html`<li key=${JSON.stringify(item)}><${Badge} tone=${TONES[item.effect]}>${t(`definitions.mark.${item.effect}`)}<//> <span class="name">${item.name}</span>${
      item.vhost && html` <span class="soft">${t("common.inVhost", { vhost: item.vhost })}</span>`}</li>`)}</ul>`}</li>`)}</ul>`;
}

function Import({ vhosts }) {
  const [planned, setPlanned] = useState(null);
  const preview = async (fields) => {
    setPlanned(null);
    const text = await fields.file.text();
    let document;
    try {
      document = JSON.parse(text);
    } catch (error) {
      say(t("definitions.notJson", { text: error.message }), "bad");
      return;
    }
    const query = { vhost: fields.vhost, convert: fields.convert === "on" ? "quorum=mirrored" : "" };
    const found = await act(request("mirrormq/definitions-preview", { method: "POST", body: document, query }));
    if (found) setPlanned({ document, query, ...found });
  };
  // The entries that the import skips are those of the preview.
  const apply = async () => {
    const query = { ...planned.query, skip_unsupported: true };
    if (await act(request("definitions", { method: "POST", body: planned.document, query }), t("definitions.imported"))) setPlanned(null);
  };
  return html`<${Panel} id="import" title=${t("definitions.import")}><p class="soft">${t("definitions.importText")}</p>
    <${Form} label=${t("definitions.import")} button=${t("definitions.preview")} tone="" onSubmit=${preview}>
      <${Field} label=${t("definitions.file")} name="file" type="file" accept="application/json,.json" required />
      <${VhostChoice} vhosts=${vhosts} />
      <div class="checks wide"><${Check} label=${t("definitions.convert")} name="convert" /></div>
    <//>
    ${planned && html`<section class="preview" aria-label=${t("definitions.changes")} aria-live="polite"><h3>${t("definitions.changes")}</h3>
      <${Changes} kinds=${planned.kinds} />
      ${planned.skipped.length > 0 && html`<h4>${t("definitions.skipped", { n: count(planned.skipped.length) })}</h4>
        <ul class="matches" lang="en">${planned.skipped.map((entry) => html`<li key=${JSON.stringify(entry)}><strong class="name">${entry.name}</strong>: ${entry.reason}. ${entry.remedy}</li>`)}</ul>`}
      ${planned.converted.length > 0 && html`<ul class="matches" lang="en">${planned.converted.map((sentence) => html`<li key=${sentence}>${sentence}</li>`)}</ul>`}
      <div class="buttons"><button type="button" class="button primary" onClick=${apply}>${t("definitions.apply")}</button>
        <button type="button" class="button" onClick=${() => setPlanned(null)}>${t("common.cancel")}</button></div></section>`}
  <//>`;
}

export function Definitions() {
  const vhosts = useVhosts();
  return html`<div class="panels"><${Export} vhosts=${vhosts} /><${Import} vhosts=${vhosts} /></div>`;
}
