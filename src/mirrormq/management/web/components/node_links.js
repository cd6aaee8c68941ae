// Addresses of the other nodes' pages, remembered while this node still replies.
import { get } from "../lib/api.js";
import { html, useEffect } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { isMonitor } from "../lib/session.js";
import { Store, useStore } from "../lib/store.js";

const EVERY_S = 30;
const remembered = new Store({ node: "", contexts: [] });

const isAny = (host) => ["", "::", "0.0.0.0"].includes(host);
const isOwn = (host) => ["localhost", "127.0.0.1", "::1"].includes(host);

// Page of a node; a node that listens on every address is reached by the host name of this page.
export function pageOf(name, contexts) {
  const context = contexts.find((each) => each.node === name);
  if (!context) return "";
  const host = isAny(context.ip) || isOwn(context.ip) ? location.hostname : context.ip.includes(":") ? `[${context.ip}]` : context.ip;
  return `${context.ssl ? "https" : "http"}://${host}:${context.port}/`;
}

// Only users with the tag monitoring may see the addresses.
export function useNodeLinks(user) {
  const beat = useStore(live, (value) => (value.tick > 0 ? Math.floor(value.tick / EVERY_S) : -1));
  useEffect(() => {
    if (beat < 0 || !isMonitor(user)) return;
    get("overview", { columns: "node,contexts" }).then((found) => remembered.set({ node: found.node, contexts: found.contexts || [] }), () => {});
  }, [user, beat]);
}

export function OtherNodes() {
  const { node, contexts } = useStore(remembered);
  const nodes = useStore(live, (value) => value.nodes) || [];
  const living = nodes.filter((each) => each.running !== false && each.name !== node).map((each) => [each.name, pageOf(each.name, contexts)]).filter(([, page]) => page);
  if (!living.length) return null;
  return html`<p>${t("live.others")}</p><ul>${living.map(([name, page]) => html`<li key=${name}><a href=${`${page}${location.hash}`}>${name}</a></li>`)}</ul>`;
}
