// The Spark jobs: their state and results, once there are some.
import { Badge, Empty, Panel, Refusal } from "../components/basics.js";
import { Logo } from "../components/icons.js";
import { Table } from "../components/table.js";
import { useFetch } from "../lib/fetching.js";
import { dateTime } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const JOBS = ["archive", "replay", "audit", "stats"];

export function Pipeline() {
  const { data, error } = useFetch("mirrormq/pipeline", {}, { every: 2 });
  const jobs = Array.isArray(data) ? data : [];
  return html`<h1>${t("place.pipeline")}</h1>
    ${error && error.status !== 404 && html`<${Refusal} error=${error} />`}
    ${jobs.length > 0 && html`<${Panel} id="jobs" title=${t("pipeline.jobs")} wide><${Table} caption=${t("pipeline.jobs")} rows=${jobs} keyOf=${(job) => job.id ?? job.name} columns=${[
      { id: "name", label: t("common.name"), head: true, cell: (job) => job.name },
      { id: "state", label: t("common.state"), cell: (job) => html`<${Badge}>${job.state}<//>` },
      { id: "at", label: t("pipeline.updated"), cell: (job) => (job.at_ms ? dateTime(job.at_ms) : "") },
      { id: "text", label: t("pipeline.result"), cell: (job) => job.text ?? "" },
    ]} /><//>`}
    ${jobs.length === 0 && html`<${Empty} drawing=${html`<${Logo} size=${56} />`} title=${t("pipeline.none")}>
      <p>${t("pipeline.noneText")}</p>
      <dl class="jobs">${JOBS.map((job) => html`<div key=${job}><dt><code>mirrormq pipeline ${job}</code></dt><dd>${t(`pipeline.${job}`)}</dd></div>`)}</dl>
    <//>`}`;
}
