// Charts of the overview and of a queue: message rates and queue lengths.
import { html, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { ratesShown } from "../lib/rates.js";
import { Chart, SpanChoice } from "./chart.js";
import { Panel } from "./basics.js";

const RATES = [["publish", "publish"], ["deliver_get", "deliver"], ["ack", "ack", [6, 4]], ["redeliver", "redeliver", [2, 3]]];
const LENGTHS = [["messages", "total"], ["messages_ready", "ready"], ["messages_unacknowledged", "unacked", [6, 4]]];

export function Traffic({ series, tick }) {
  const [spanS, setSpanS] = useState(300);
  const lines = (names) => names.map(([name, tone, dash]) => ({ name, tone, dash, label: t(`number.${name}`), values: series.values[name] }));
  return html`<${Panel} id="traffic" title=${t("traffic.title")} wide actions=${html`<${SpanChoice} spanS=${spanS} onChange=${setSpanS} />`}>
    <div class="charts">
      ${ratesShown() && html`<${Chart} title=${t("traffic.rates")} unit=${t("unit.perSecond")} times=${series.times} series=${lines(RATES)} tick=${tick} spanS=${spanS} />`}
      <${Chart} title=${t("traffic.lengths")} unit=${t("unit.messages")} times=${series.times} series=${lines(LENGTHS)} tick=${tick} spanS=${spanS} />
    </div>
    ${!ratesShown() && html`<p class="soft">${t("traffic.hidden")}</p>`}
  <//>`;
}
