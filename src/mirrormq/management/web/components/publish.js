// Form that publishes one message to an exchange, or through the default exchange to a queue.
import { path, post } from "../lib/api.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { ArgumentsField, argumentsOf } from "./arguments_field.js";
import { Field, Form } from "./forms.js";
import { act, say } from "./notices.js";

const NUMBERS = ["timestamp", "priority"];
const PROPERTIES = [
  "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "timestamp", "type", "user_id",
  "app_id", "priority",
].map((key) => ({ key, type: NUMBERS.includes(key) ? "number" : "string", value: "" }));

export function PublishForm({ vhost, exchange, routingKey }) {
  const publish = async (fields) => {
    try {
      const headers = argumentsOf(fields, "headers");
      const properties = { ...argumentsOf(fields, "properties"), delivery_mode: Number(fields.mode) };
      if (Object.keys(headers).length) properties.headers = headers;
      const answer = await act(post(path("exchanges", vhost, exchange || "amq.default", "publish"), {
        routing_key: fields.key, properties, payload: fields.payload, payload_encoding: fields.encoding,
      }));
      if (answer) say(answer.routed ? t("publish.routed") : t("publish.unrouted"), answer.routed ? "good" : "warn");
    } catch (error) {
      say(error.message, "bad");
    }
  };
  return html`<${Form} label=${t("publish.title")} button=${t("publish.button")} onSubmit=${publish}>
    <${Field} label=${t("common.routingKey")} name="key" value=${routingKey || ""} />
    <${Field} label=${t("publish.mode")} name="mode" value="2" options=${[["1", t("publish.transient")], ["2", t("publish.persistent")]]} />
    <${Field} label=${t("publish.encoding")} name="encoding" value="string" options=${[["string", t("publish.text")], ["base64", "Base64"]]} />
    <${Field} label=${t("publish.payload")} name="payload" rows="4" wide />
    <details class="folded wide"><summary>${t("publish.more")}</summary><div class="folded-inside">
      <${ArgumentsField} label=${t("publish.headers")} name="headers" />
      <${ArgumentsField} label=${t("publish.properties")} name="properties" hints=${PROPERTIES} />
    </div></details>
  <//>`;
}
