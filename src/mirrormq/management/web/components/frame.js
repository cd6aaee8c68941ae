// Frame of every page: logo, navigation, user, breadcrumbs and the state of the live stream.
import { html, useEffect, useRef, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { live, pause, resume } from "../lib/live.js";
import { choose, LANGUAGES, preferences, THEMES } from "../lib/preferences.js";
import { route, to } from "../lib/router.js";
import { end, isMonitor, isPolicymaker } from "../lib/session.js";
import { useStore } from "../lib/store.js";
import { Dialog } from "./dialog.js";
import { Icon, Logo } from "./icons.js";
import { OtherNodes, useNodeLinks } from "./node_links.js";
import { Notices } from "./notices.js";
import { VhostFilter } from "./vhosts.js";

const PLACES = ["overview", "connections", "channels", "exchanges", "queues", "cluster", "timeline", "bridges", "admin", "pipeline"];
const THEME_ICONS = { auto: "auto", light: "sun", dark: "moon" };

function mayVisit(place, user) {
  if (place === "cluster" || place === "timeline") return isMonitor(user);
  if (place === "bridges") return isMonitor(user) || isPolicymaker(user);
  return place !== "admin" || isPolicymaker(user);
}

export function Choices() {
  const { language, theme } = useStore(preferences);
  const nextTheme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return html`<div class="choices">
    <div class="choice" role="group" aria-label=${t("frame.language")}>${LANGUAGES.map((each) => html`<button type="button" key=${each} lang=${each}
      aria-pressed=${each === language} onClick=${() => choose("language", each)}>${{ en: "EN", zh: "中文" }[each]}</button>`)}</div>
    <button type="button" class="icon-button theme" onClick=${() => choose("theme", nextTheme)} title=${t(`theme.${theme}`)}
      aria-label=${t("frame.theme", { now: t(`theme.${theme}`), next: t(`theme.${nextTheme}`) })}><${Icon} name=${THEME_ICONS[theme]} /></button>
  </div>`;
}

function LiveSign() {
  const status = useStore(live, (value) => value.status);
  const paused = status === "paused";
  return html`<span class=${`live ${status}`} role="status"><span class="live-dot" aria-hidden="true"></span><span class="live-text">${t(`live.${status}`)}</span></span>
    <button type="button" class="icon-button" title=${t(paused ? "live.resume" : "live.pause")} aria-label=${t(paused ? "live.resume" : "live.pause")} onClick=${paused ? resume : pause}><${Icon} name=${paused ? "resume" : "pause"} /></button>`;
}

function Places({ user, onGo }) {
  const page = useStore(route, (value) => value.page);
  const here = page === "nodes" ? "cluster" : page;
  return html`<ul>${PLACES.filter((place) => mayVisit(place, user)).map((place) => html`<li key=${place}><a href=${to(place)} onClick=${onGo}
    aria-current=${place === here ? "page" : undefined}><${Icon} name=${place} />${t(`place.${place}`)}</a></li>`)}</ul>`;
}

export function Frame({ user, title, children }) {
  const [unfolded, setUnfolded] = useState(false);
  const place = useStore(route, (value) => JSON.stringify([value.page, value.parts]));
  const status = useStore(live, (value) => value.status);
  useNodeLinks(user);
  const main = useRef(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · MirrorMQ`;
  }, [title]);
  useEffect(() => {
    setUnfolded(false);
    if (!first.current) {
      main.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    first.current = false;
  }, [place]);
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>${t("frame.skip")}</a>
    <header class="top">
      <button type="button" class="icon-button menu" aria-expanded=${unfolded} aria-controls="places" aria-label=${t("frame.menu")}
        onClick=${() => setUnfolded(!unfolded)}><${Icon} name="menu" /></button>
      <a class="brand" href=${to("overview")}><${Logo} /><span>MirrorMQ</span></a>
      <${LiveSign} />
      <span class="top-space"></span>
      <${VhostFilter} />
      <${Choices} />
      <span class="who" title=${user.tags.join(", ")}>${user.name}</span>
      <button type="button" class="button quiet" onClick=${() => end()}>${t("frame.logout")}</button>
    </header>
    <nav id="places" class=${`places${unfolded ? " unfolded" : ""}`} aria-label=${t("frame.places")}><${Places} user=${user} onGo=${() => setUnfolded(false)} />
      <p class="places-foot"><a href="api/index.html">${t("frame.api")}</a></p></nav>
    <main id="main" ref=${main} tabindex="-1">
      ${status === "lost" && html`<div class="notice bad" role="alert"><strong>${t("live.lostTitle")}</strong><div>${t("live.lostText")}<${OtherNodes} /></div></div>`}
      ${children}
    </main>
    <${Notices} /><${Dialog} />`;
}
