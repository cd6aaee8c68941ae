// Graph of shovels and federation links: brokers at both sides, one line per link, coloured by its state.
import { fitted, shortNode } from "../lib/format.js";
import { isLocal, linksOf, shownUri } from "../lib/bridges.js";
import { html } from "../lib/html.js";
import { known, t } from "../lib/i18n.js";

const SHOWN_MAX = 24; // More lines cannot be told apart; the page of bridges lists all of them.
const WIDTH = 860;
const ROW = 54;
const BOX = { width: 210, height: 40 };
const PILL = { width: 190, height: 40 };
const TONES = { running: "good", starting: "warn", flow: "warn" };
const LETTERS = 28;

const brokerOf = ({ uri }) => (isLocal(uri) ? t("bridge.here") : shownUri(uri).replace(/^amqps?:\/\//, "").replace(/\/$/, "") || t("bridge.unknown"));
const wordOf = (state) => (known(`state.${state}`) ? t(`state.${state}`) : state);

// Height of each broker's box: the middle of the links that end there.
function heightsOf(links, side) {
  const found = new Map();
  links.forEach((link, index) => {
    const broker = brokerOf(link[side]);
    found.set(broker, [...(found.get(broker) || []), index]);
  });
  const boxes = [...found].map(([broker, indexes]) => ({ broker, middle: indexes.reduce((sum, index) => sum + index, 0) / indexes.length }));
  boxes.sort((one, other) => one.middle - other.middle);
  const spare = links.length - boxes.length;
  return new Map(boxes.map(({ broker, middle }, place) => [broker, (Math.min(place + spare, Math.max(place, middle)) + 0.5) * ROW]));
}

const curve = (x1, y1, x2, y2) => `M${x1} ${y1}C${(x1 + x2) / 2} ${y1} ${(x1 + x2) / 2} ${y2} ${x2} ${y2}`;

function Boxes({ heights, x }) {
  return [...heights].map(([broker, y]) => html`<g key=${broker} class="bridge-broker"><rect x=${x} y=${y - BOX.height / 2} width=${BOX.width} height=${BOX.height} rx="9" />
    <text x=${x + BOX.width / 2} y=${y} text-anchor="middle" dominant-baseline="central">${fitted(broker, LETTERS)}</text></g>`);
}

export function BridgeMap({ shovels, federation }) {
  const all = linksOf(shovels, federation).sort((one, other) => brokerOf(one.from).localeCompare(brokerOf(other.from)) || one.name.localeCompare(other.name));
  const links = all.slice(0, SHOWN_MAX);
  const from = heightsOf(links, "from");
  const into = heightsOf(links, "into");
  const left = BOX.width;
  const right = WIDTH - BOX.width;
  const pill = (WIDTH - PILL.width) / 2;
  const described = t("bridge.described", { n: all.length, running: all.filter((link) => link.state === "running").length });
  return html`<div class="lanes-box"><svg class="map bridges" viewBox=${`0 0 ${WIDTH} ${links.length * ROW}`} role="img" aria-label=${described}>
      ${links.map((link, index) => {
        const y = (index + 0.5) * ROW;
        const tone = TONES[link.state] || "bad";
        return html`<g key=${link.key} class=${`bridge-link ${tone}`}><title>${`${link.from.name} → ${link.into.name || "…"}: ${wordOf(link.state)}${link.reason ? `, ${link.reason}` : ""}`}</title>
          <path d=${curve(left, from.get(brokerOf(link.from)), pill, y)} /><path d=${curve(pill + PILL.width, y, right - 7, into.get(brokerOf(link.into)))} />
          <path class="bridge-arrow" d=${`M${right - 9} ${into.get(brokerOf(link.into)) - 5}l9 5l-9 5z`} />
          <rect x=${pill} y=${y - PILL.height / 2} width=${PILL.width} height=${PILL.height} rx=${PILL.height / 2} />
          <text class="bridge-name" x=${WIDTH / 2} y=${y - 7} text-anchor="middle" dominant-baseline="central">${fitted(link.name, 22)}</text>
          <text class="bridge-state" x=${WIDTH / 2} y=${y + 10} text-anchor="middle" dominant-baseline="central">${fitted(`${wordOf(link.state)} · ${shortNode(link.node || "–")}`, 28)}</text></g>`;
      })}
      <${Boxes} heights=${from} x=${0} /><${Boxes} heights=${into} x=${right} />
    </svg></div>
    ${all.length > links.length && html`<p class="soft">${t("bridge.more", { n: all.length - links.length })}</p>`}`;
}
