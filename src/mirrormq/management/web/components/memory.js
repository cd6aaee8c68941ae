// Memory of a node by category, as a bar and as a list; RabbitMQ's names of categories.
import { bytes, percent } from "../lib/format.js";
import { html } from "../lib/html.js";
import { known, t } from "../lib/i18n.js";
import { Panel } from "./basics.js";

const TONES = ["publish", "deliver", "ack", "redeliver", "ready", "unacked", "total"];
const wordOf = (name) => (known(`memory.${name}`) ? t(`memory.${name}`) : name);

export function Memory({ parts }) {
  const { total, strategy, ...sizes } = parts || {};
  const rows = Object.entries(sizes).filter(([, size]) => size > 0).sort(([, one], [, other]) => other - one);
  const sum = rows.reduce((all, [, size]) => all + size, 0);
  return html`<${Panel} id="memory" title=${t("memory.title")} wide>
    ${!parts ? html`<p class="nothing">${t("common.loading")}</p>` : html`
      <div class="shares-bar" aria-hidden="true">${rows.map(([name, size], index) => html`<span key=${name} class=${`fill ${TONES[index % TONES.length]}`} style=${{ width: `${(size / sum) * 100}%` }}></span>`)}</div>
      <ul class="legend">${rows.map(([name, size], index) => html`<li key=${name}><span class=${`swatch ${TONES[index % TONES.length]}`} aria-hidden="true"></span>${wordOf(name)} <strong>${bytes(size)}</strong> <span class="soft">${percent(size / sum)}</span></li>`)}</ul>
      <p class="soft">${t("memory.total", { n: bytes(sum) })}</p>`}
  <//>`;
}
