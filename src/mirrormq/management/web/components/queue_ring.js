// Ring of one queue with its buttons: synchronise, stop the synchronisation, move the master.
import { path, post } from "../lib/api.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { isSyncing, ringOf } from "../lib/ring.js";
import { isAdministrator } from "../lib/session.js";
import { Notice, Panel } from "./basics.js";
import { Field, Form } from "./forms.js";
import { act } from "./notices.js";
import { RingDrawing, RingMembers } from "./ring.js";

function RingActions({ queue, ring, user, onDone }) {
  const where = path("queues", queue.vhost, queue.name);
  const order = async (action, done) => {
    if (await act(post(`${where}/actions`, { action }), done)) onDone();
  };
  const move = async (fields) => {
    if (await act(post(`mirrormq/${where}/move`, { node: fields.node }), t("ring.moved", { node: fields.node }))) onDone();
  };
  const lacking = ring.members.some((member) => member.state === "behind" || member.state === "joining");
  const others = ring.members.slice(1).filter((member) => member.state !== "down").map((member) => member.name);
  if (ring.members.length < 2) {
    const mirrored = queue.effective_policy_definition?.["ha-mode"];
    return html`<p class="soft">${mirrored ? t("ring.aloneMirrored") : t("ring.aloneText")}</p>`;
  }
  return html`<div class="ring-actions">
    ${isAdministrator(user) && html`<div class="buttons">
      <button type="button" class="button primary" disabled=${!lacking} onClick=${() => order("sync", t("ring.syncAsked"))}>${t("ring.sync")}</button>
      <button type="button" class="button" disabled=${!isSyncing(ring)} onClick=${() => order("cancel_sync", t("ring.cancelAsked"))}>${t("ring.cancel")}</button>
    </div>`}
    ${isAdministrator(user) && others.length > 0 && html`<${Form} inline label=${t("ring.move")} button=${t("ring.move")} tone="" onSubmit=${move}>
      <${Field} label=${t("ring.newMaster")} name="node" options=${others} /><//>`}
  </div>`;
}

export function QueueRing({ queue, nodes, user, flowing, onDone }) {
  const ring = ringOf(queue, nodes);
  return html`<${Panel} id="ring" title=${t("ring.title")} wide>
    ${!ring.up && html`<${Notice} tone="bad" title=${t("ring.isDown")}>${ring.waitsFor.length > 0 && t("ring.isDownText", { nodes: ring.waitsFor.join(", ") })}<//>`}
    <div class="ring-box">
      <${RingDrawing} ring=${ring} flowing=${flowing} />
      <div class="ring-words"><${RingMembers} ring=${ring} /><${RingActions} queue=${queue} ring=${ring} user=${user} onDone=${onDone} /></div>
    </div>
  <//>`;
}
