// Pipeline page: jobs with their last reports, leases, and commands that start a job.
import { Panel, Refusal, State } from "../components/basics.js";
import { Commands } from "../components/commands.js";
import { LEASES_EVERY_S, LeaseTable } from "../components/leases.js";
import { Named, Table } from "../components/table.js";
import { useFetch } from "../lib/fetching.js";
import { ago } from "../lib/format.js";
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { remember, shown } from "../lib/jobs.js";
import { live } from "../lib/live.js";
import { to } from "../lib/router.js";
import { useStore } from "../lib/store.js";

const JOBS_EVERY_S = 10; // A job without reports becomes silent.
const NUMBERS_SHOWN = 3;

function Numbers({ numbers }) {
  const entries = Object.entries(numbers);
  if (!entries.length) return null;
  const rest = entries.length - NUMBERS_SHOWN;
  return html`<ul class="arguments">${entries.slice(0, NUMBERS_SHOWN).map(([name, value]) => html`<li key=${name}><span class="soft">${name}</span> ${shown(name, value)}</li>`)}
    ${rest > 0 && html`<li class="soft">${t("pipeline.more", { n: rest })}</li>`}</ul>`;
}

function Jobs({ jobs }) {
  const nowMs = useStore(live, (value) => value.atMs);
  const several = new Set(jobs.map((job) => job.vhost)).size > 1;
  return html`<${Table} caption=${t("pipeline.jobs")} rows=${jobs} empty=${t("pipeline.none")} keyOf=${(job) => JSON.stringify([job.vhost, job.job])} columns=${[
    { id: "job", label: t("pipeline.job"), head: true, cell: (job) => html`<${Named} href=${to("pipeline", job.vhost, job.job)} name=${job.job} />` },
    { id: "kind", label: t("pipeline.kind"), cell: (job) => job.kind },
    { id: "state", label: t("common.state"), cell: (job) => html`<${State} value=${job.state} />` },
    { id: "text", label: t("pipeline.word"), cell: (job) => html`<span class="name">${job.text}</span>` },
    { id: "numbers", minor: true, label: t("pipeline.numbers"), cell: (job) => html`<${Numbers} numbers=${job.numbers} />` },
    { id: "age", short: true, label: t("pipeline.age"), cell: (job) => ago(job.reported, nowMs) },
    several && { id: "vhost", label: t("common.vhost"), cell: (job) => job.vhost },
  ]} />`;
}

export function Pipeline({ user }) {
  const jobs = useFetch("mirrormq/jobs", {}, { every: JOBS_EVERY_S, follow: "pipeline" });
  const leases = useFetch("mirrormq/leases", {}, { every: LEASES_EVERY_S, follow: "pipeline" });
  const overview = useFetch("overview");
  (jobs.data || []).forEach(remember);
  const loading = html`<p class="nothing">${t("common.loading")}</p>`;
  return html`<h1>${t("place.pipeline")}</h1>
    <div class="panels">
      <${Panel} id="jobs" title=${t("pipeline.jobs")} wide><${Refusal} error=${jobs.error} />
        ${jobs.data ? html`<${Jobs} jobs=${jobs.data} />` : jobs.loading && loading}<//>
      <${Panel} id="leases" title=${t("lease.title")} wide><p class="soft">${t("lease.text")}</p><${Refusal} error=${leases.error} />
        ${leases.data ? html`<${LeaseTable} leases=${leases.data} showQueue onDone=${leases.reload} />` : leases.loading && loading}<//>
      <${Panel} id="start" title=${t("pipeline.start")} wide><${Commands} overview=${overview.data} user=${user} /><//>
    </div>`;
}
