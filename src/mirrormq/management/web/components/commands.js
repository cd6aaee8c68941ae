// Command lines to copy, which start a job for the node of this page.
import { html, useRef } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { say } from "./notices.js";

// Quote a word for a shell: single quotes disable all special characters.
const quoted = (text) => `'${text.replaceAll("'", "%27")}'`;

// Return this node's AMQP address. Only monitoring users see listeners; others get the default port.
export function addressOf(overview, login = "") {
  const own = (overview?.listeners || []).filter((each) => each.node === overview.node);
  const plain = own.find((each) => each.protocol === "amqp");
  const chosen = plain || own.find((each) => each.protocol === "amqp/ssl") || { protocol: "amqp", port: 5672 };
  return `${chosen.protocol === "amqp" ? "amqp" : "amqps"}://${login}${location.hostname}:${chosen.port}`;
}

const JOBS = [
  ["archive", (uri) => `mirrormq pipeline archive --uri ${uri} --queues '^orders$' --to archive --once`],
  ["replay", (uri) => `mirrormq pipeline replay --uri ${uri} --from archive --exchange again`],
  ["stats", (uri) => `mirrormq pipeline stats --uri ${uri} --to stats`],
  ["audit", (uri) => `mirrormq pipeline audit --live --uri ${uri} --for 10m`],
];

// Break a long line between words, never inside an option.
const Words = ({ text }) => text.split(" ").map((word, index) => html`${index > 0 && " "}<span key=${index} class="word">${word}</span>`);

function Command({ name, text }) {
  const code = useRef(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say(t("command.copied"));
    } catch { // Without TLS a page has no clipboard access: the user copies the selection.
      getSelection().selectAllChildren(code.current);
      say(t("command.selected"), "warn");
    }
  };
  return html`<div class="command"><h3>${name}</h3><p class="soft">${t(`pipeline.${name}`)}</p>
    <div class="command-line"><pre tabindex="0"><code ref=${code}><${Words} text=${text} /></code></pre>
      <button type="button" class="button" aria-label=${t("command.copyOf", { name })} onClick=${copy}>${t("command.copy")}</button></div></div>`;
}

export function Commands({ overview, user }) {
  const uri = quoted(`${addressOf(overview, `${encodeURIComponent(user.name)}:PASSWORD@`)}/%2F`);
  return html`<p class="soft">${t("command.text")}</p>
    <div class="commands">${JOBS.map(([name, line]) => html`<${Command} key=${name} name=${name} text=${line(uri)} />`)}</div>`;
}
