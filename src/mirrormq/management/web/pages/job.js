// Page of one job: its last report, its numbers, its rates as a chart, and the table of its results.
import { Facts, Notice, Panel, Refusal, State } from "../components/basics.js";
import { Chart } from "../components/chart.js";
import { confirmed } from "../components/dialog.js";
import { act } from "../components/notices.js";
import { Table } from "../components/table.js";
import { path, remove } from "../lib/api.js";
import { useFetch } from "../lib/fetching.js";
import { ago, count, dateTime, duration } from "../lib/format.js";
import { html, useMemo } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { columnsOf, daysOf, isTime, linesOf, remember, rememberedLines, shown } from "../lib/jobs.js";
import { live } from "../lib/live.js";
import { go, to } from "../lib/router.js";
import { isAdministrator } from "../lib/session.js";
import { useStore } from "../lib/store.js";

const ASK_EVERY_S = 10;
const ROWS_SHOWN_MAX = 200;
const SPAN_S_MIN = 60;

function Lines({ title, lines, tick, past }) {
  const spanS = Math.max(SPAN_S_MIN, lines.times.at(-1) - lines.times[0]);
  return html`<${Chart} title=${title} unit=${t("job.perSecond")} times=${lines.times} series=${lines.series} tick=${tick} spanS=${spanS} past=${past} />`;
}

function Charts({ job }) {
  const counted = useMemo(() => linesOf(job.table), [job.reported]);
  const heard = rememberedLines(job);
  if (!counted && heard.times.length < 2) return null;
  return html`<${Panel} id="rates" title=${t("job.rates")} wide><div class="charts">
    ${counted && html`<${Lines} title=${t("job.counted")} lines=${counted} tick=${job.reported} past />`}
    ${heard.times.length >= 2 && html`<${Lines} title=${t("job.heard")} lines=${heard} tick=${job.reported} past=${job.state !== "running"} />`}
  </div><//>`;
}

function Results({ rows }) {
  const days = daysOf(rows).size;
  const columns = columnsOf(rows).map((name, index) => ({
    id: name, label: name, head: index === 0, numeric: rows.every((row) => typeof row[name] === "number" || row[name] === null || row[name] === undefined),
    short: rows.every((row) => isTime(row[name])), cell: ({ row }) => shown(name, row[name], days),
  }));
  const numbered = rows.slice(0, ROWS_SHOWN_MAX).map((row, index) => ({ row, index }));
  return html`<div class="results"><${Table} caption=${t("job.results")} rows=${numbered} keyOf=${({ index }) => index} columns=${columns} /></div>
    ${rows.length > ROWS_SHOWN_MAX && html`<p class="soft">${t("preview.more", { n: count(rows.length - ROWS_SHOWN_MAX) })}</p>`}`;
}

function Said({ job, nowMs }) {
  if (job.state === "silent") return html`<${Notice} title=${t("job.silent", { age: duration(nowMs - job.reported) })}>${t("job.silentText")}<//>`;
  if (job.state === "failed") return html`<${Notice} tone="bad" title=${t("job.failed")}>${job.text}<//>`;
  return null;
}

export function Job({ vhost, name, user }) {
  const where = path("mirrormq", "jobs", vhost, name);
  const { data: job, error } = useFetch(where, {}, { every: ASK_EVERY_S, follow: "pipeline" });
  const nowMs = useStore(live, (value) => value.atMs);
  if (job) remember(job);
  const numbers = Object.entries(job?.numbers || {});
  const over = job && job.state !== "running" && job.state !== "silent";
  const forget = async () => {
    if (!await confirmed(t("job.forget"), t("job.forgetText", { name }), t("job.forget"))) return;
    if (await act(remove(where), t("job.forgotten", { name }))) go("pipeline");
  };
  return html`<nav class="crumbs" aria-label=${t("frame.crumbs")}><a href=${to("pipeline")}>${t("place.pipeline")}</a></nav>
    <div class="page-head"><h1 class="name">${name} <small class="soft">${t("common.inVhost", { vhost })}</small></h1>
      ${job && (isAdministrator(user) || job.user === user.name) && html`<div class="buttons"><button type="button" class="button danger" onClick=${forget}>${t("job.forget")}</button></div>`}</div>
    <${Refusal} error=${error} />
    ${job && html`<${Said} job=${job} nowMs=${nowMs} />
    <div class="panels">
      <${Panel} id="facts" title=${t("common.details")}><${Facts} rows=${[
        [t("common.state"), html`<${State} value=${job.state} />`],
        [t("pipeline.kind"), job.kind],
        [t("pipeline.word"), job.text || t("common.none")],
        [t("pipeline.age"), ago(job.reported, nowMs)],
        [t("job.started"), dateTime(job.started)],
        [t("job.lasted"), duration((over ? job.reported : Math.max(nowMs, job.reported)) - job.started)],
        [t("common.user"), job.user],
        [t("job.told"), job.node],
      ]} /><//>
      <${Panel} id="numbers" title=${t("pipeline.numbers")}>${numbers.length
        ? html`<${Facts} rows=${numbers.map(([each, value]) => [each, shown(each, value)])} />`
        : html`<p class="nothing">${t("job.noNumbers")}</p>`}<//>
      <${Charts} job=${job} />
      ${job.table.length > 0 && html`<${Panel} id="results" title=${t("job.results")} wide><${Results} rows=${job.table} /><//>`}
    </div>`}`;
}
