// Entry point: check the login, then show the page of the address.
import { request } from "./lib/api.js";
import { html, render, useEffect } from "./lib/html.js";
import { t } from "./lib/i18n.js";
import { preferences } from "./lib/preferences.js";
import { route } from "./lib/router.js";
import { begin, session } from "./lib/session.js";
import { useStore } from "./lib/store.js";
import { Empty } from "./components/basics.js";
import { Frame } from "./components/frame.js";
import { Login } from "./pages/login.js";
import { Overview } from "./pages/overview.js";
import { Connection, Connections } from "./pages/connections.js";
import { Channel } from "./pages/channel.js";
import { Channels } from "./pages/channels.js";
import { Exchanges } from "./pages/exchanges.js";
import { Exchange } from "./pages/exchange.js";
import { Queues } from "./pages/queues.js";
import { Queue } from "./pages/queue.js";
import { Cluster } from "./pages/cluster.js";
import { NodePage } from "./pages/node.js";
import { Timeline } from "./pages/timeline.js";
import { Admin } from "./pages/admin.js";
import { Job } from "./pages/job.js";
import { Bridges } from "./pages/bridges.js";
import { Pipeline } from "./pages/pipeline.js";

function NotThere() {
  return html`<h1>${t("page.notThere")}</h1><${Empty} title=${t("page.notThereText")} />`;
}

const PAGES = {
  overview: Overview, connections: Connections, channels: Channels, exchanges: Exchanges, queues: Queues, cluster: Cluster,
  timeline: Timeline, bridges: Bridges, admin: Admin, pipeline: Pipeline,
};

// Return the component of an address, its parts, and the title of the tab.
function pageOf({ page, parts }) {
  if (page === "queues" && parts.length >= 2) return [Queue, { vhost: parts[0], name: parts[1] }, parts[1]];
  if (page === "exchanges" && parts.length >= 2) return [Exchange, { vhost: parts[0], name: parts[1] }, parts[1]];
  if (page === "connections" && parts.length) return [Connection, { name: parts[0] }, parts[0]];
  if (page === "channels" && parts.length) return [Channel, { name: parts[0] }, parts[0]];
  if (page === "nodes" && parts.length) return [NodePage, { name: parts[0] }, parts[0]];
  if (page === "pipeline" && parts.length >= 2) return [Job, { vhost: parts[0], name: parts[1] }, parts[1]];
  if (page in PAGES) return [PAGES[page], { parts }, t(`place.${page}`)];
  return [NotThere, {}, t("page.notThere")];
}

function App() {
  const { user, login } = useStore(session);
  const where = useStore(route);
  useStore(preferences);
  useEffect(() => { // After a reload, session storage still holds this tab's login.
    if (login && !user) request("whoami", { login }).then((found) => begin(login, found), () => session.set({ login: null }));
  }, [login]);
  if (login && !user) return html`<p class="nothing" role="status">${t("common.loading")}</p>`;
  if (!user) return html`<${Login} />`;
  const [Page, properties, title] = pageOf(where);
  return html`<${Frame} user=${user} title=${title}><${Page} key=${where.page + JSON.stringify(properties)} user=${user} ...${properties} /><//>`;
}

render(html`<${App} />`, document.getElementById("page"));
