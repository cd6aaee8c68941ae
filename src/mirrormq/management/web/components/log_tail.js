// Last lines of a node's log, for administrators.
import { useEffect, useState, html } from "../lib/html.js";
import { control } from "../lib/api.js";
import { t } from "../lib/i18n.js";
import { live } from "../lib/live.js";
import { useStore } from "../lib/store.js";
import { Panel, Refusal } from "./basics.js";

const LINES = 100;
const EVERY_S = 5;
const LEVEL = /\[(warning|error|critical)\]/;

function useLog(node) {
  const [state, setState] = useState({ lines: null, error: null });
  const beat = useStore(live, (value) => Math.floor(value.tick / EVERY_S));
  useEffect(() => {
    let isCurrent = true;
    control("log_tail", { options: { number: LINES }, node }).then(
      (lines) => isCurrent && setState({ lines, error: null }),
      (error) => isCurrent && setState((before) => ({ ...before, error })),
    );
    return () => { isCurrent = false; };
  }, [node, beat]);
  return state;
}

export function LogTail({ node }) {
  const { lines, error } = useLog(node);
  return html`<${Panel} id="log" title=${t("log.title", { n: LINES })} wide>
    <${Refusal} error=${error} />
    ${lines && (lines.length ? html`<ol class="log" tabindex="0" aria-label=${t("log.title", { n: LINES })}>${lines.map((line, index) => html`<li key=${`${index} ${line}`} class=${LEVEL.exec(line)?.[1] ?? ""}>${line}</li>`)}</ol>` : html`<p class="nothing">${t("log.empty")}</p>`)}
  <//>`;
}
