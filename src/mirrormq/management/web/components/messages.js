// Form that gets messages from a queue; the user chooses their settlement first.
import { post } from "../lib/api.js";
import { bytes, count } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Arguments, Badge } from "./basics.js";
import { Field, Form } from "./forms.js";
import { act } from "./notices.js";

const MODES = ["ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"];
const SHOWN_BYTES_MAX = 50000;
const COUNT_MAX = 1000;

function Message({ message, index }) {
  const properties = Array.isArray(message.properties) ? {} : message.properties;
  return html`<li class="message">
    <div class="message-head"><strong>${t("get.message", { n: index + 1 })}</strong>
      <span class="soft">${message.exchange || t("exchange.default")} → <code>${message.routing_key}</code></span>
      <span class="soft">${bytes(message.payload_bytes)}</span>
      ${message.redelivered && html`<${Badge} tone="warn">${t("get.redelivered")}<//>`}
      ${message.payload_encoding === "base64" && html`<${Badge}>Base64<//>`}
      <span class="soft">${t("get.left", { n: count(message.message_count) })}</span></div>
    <pre tabindex="0">${message.payload}</pre>
    ${Object.keys(properties).length > 0 && html`<${Arguments} value=${properties} />`}
  </li>`;
}

export function GetMessages({ where }) {
  const [messages, setMessages] = useState(null);
  const get = async (fields) => {
    const asked = Math.min(COUNT_MAX, Math.max(1, Number(fields.count) || 1));
    const found = await act(post(`${where}/get`, { count: asked, ackmode: fields.mode, encoding: fields.encoding, truncate: SHOWN_BYTES_MAX }));
    if (found) setMessages(found);
  };
  return html`<${Form} label=${t("get.title")} button=${t("get.button")} onSubmit=${get}>
      <${Field} label=${t("get.mode")} name="mode" value="ack_requeue_true" wide options=${MODES.map((mode) => [mode, t(`get.${mode}`)])} />
      <${Field} label=${t("get.count")} name="count" type="number" min="1" max=${COUNT_MAX} value="1" />
      <${Field} label=${t("publish.encoding")} name="encoding" value="auto" options=${[["auto", t("get.auto")], ["base64", "Base64"]]} />
    <//>
    <div role="status">${messages && (messages.length === 0
      ? html`<p class="nothing">${t("get.empty")}</p>`
      : html`<ol class="messages">${messages.map((message, index) => html`<${Message} key=${index} message=${message} index=${index} />`)}</ol>`)}</div>`;
}
