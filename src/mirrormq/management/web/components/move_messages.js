// Panel that moves all messages of a queue to another one through a shovel which deletes itself.
import { path, put, remove } from "../lib/api.js";
import { moveDefinition, moveName, movePath } from "../lib/bridges.js";
import { useFetch } from "../lib/fetching.js";
import { count, duration, rate } from "../lib/format.js";
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { isMonitor } from "../lib/session.js";
import { Panel, Progress, State } from "./basics.js";
import { Field, Form } from "./forms.js";
import { act, say } from "./notices.js";

function Moving({ job, row, ready, total, onCancel }) {
  // Users without the tag monitoring may not ask for the link: they see how the queue shrinks.
  const all = row?.remaining !== undefined ? row.forwarded + row.remaining : total;
  const moved = row?.remaining !== undefined ? row.forwarded : Math.max(0, total - ready);
  return html`<div class="moving" aria-live="polite">
    <p>${t("move.moving", { name: job.value["dest-queue"] })} ${row && html`<${State} value=${row.state} />`}</p>
    ${all > 0 && html`<${Progress} label=${t("move.progress")} done=${moved} total=${all} /><p class="soft">${t("move.count", { moved: count(moved), all: count(all) })}${row?.eta_s > 0 && ` · ${t("move.pace", { rate: rate(row.rate), time: duration(row.eta_s * 1000) })}`}</p>`}
    ${row?.reason && html`<p class="refusal" role="alert" lang="en">${row.reason}</p>`}
    <button type="button" class="button" onClick=${onCancel}>${t("move.stop")}</button></div>`;
}

export function MoveMessages({ vhost, name, ready, user }) {
  const shovel = moveName(name);
  const [total, setTotal] = useState(0);
  const before = useRef(null);
  const jobs = useFetch(path("parameters", "shovel", vhost), {}, { every: before.current ? 1 : 0 });
  const job = (jobs.data || []).find((each) => each.name === shovel);
  const status = useFetch(path("shovels", vhost), {}, { every: 1, when: Boolean(job) && isMonitor(user) });
  const row = job && (status.data || []).find((each) => each.name === shovel);
  useEffect(() => {
    if (before.current && jobs.data && !job) {
      if (before.current !== "stopped") say(t("move.done", { name: before.current }));
      before.current = null;
    } else if (job && before.current !== "stopped") {
      before.current = job.value["dest-queue"];
    }
  }, [job, jobs.data]);
  const start = async (fields) => {
    setTotal(ready);
    before.current = fields.destination;
    if (await act(put(movePath(vhost, shovel), { value: moveDefinition(vhost, name, fields.destination) }))) jobs.reload();
    else before.current = null;
  };
  const stop = async () => {
    before.current = "stopped";
    if (await act(remove(movePath(vhost, shovel)), t("move.stopped"))) jobs.reload();
  };
  return html`<${Panel} id="move" title=${t("move.title")}>
    ${job ? html`<${Moving} job=${job} row=${row} ready=${ready} total=${total} onCancel=${stop} />`
      : html`<p class="soft">${t("move.text")}</p><${Form} label=${t("move.title")} button=${t("move.button")} onSubmit=${start}>
        <${Field} label=${t("move.destination")} name="destination" required hint=${t("move.hint")} /><//>`}
  <//>`;
}
