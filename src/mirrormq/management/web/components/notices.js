// Notices of success and failure, also for screen readers; and `act`, which shows them.
import { sentence } from "../lib/api.js";
import { html, useEffect } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { Store, useStore } from "../lib/store.js";
import { Icon } from "./icons.js";

const SHOWN_MS = 5000;
const SHOWN_MAX = 4;

export const notices = new Store({ list: [] });
let next = 1;

export function say(text, tone = "good") {
  const notice = { id: next, text, tone };
  next += 1;
  notices.set({ list: [...notices.value.list, notice].slice(-SHOWN_MAX) });
}

const forget = (id) => notices.set({ list: notices.value.list.filter((notice) => notice.id !== id) });

// Wait for a request and show its success or the node's error. Return whether it succeeded.
export async function act(asked, done) {
  try {
    const result = await asked;
    if (done) say(done);
    return result === null || result === undefined ? true : result;
  } catch (error) {
    if (!error.loggedOut) say(sentence(error), "bad");
    return false;
  }
}

function Shown({ notice }) {
  useEffect(() => {
    if (notice.tone === "bad") return undefined; // An error stays until the user dismisses it.
    const timer = setTimeout(() => forget(notice.id), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [notice.id]);
  return html`<li class=${`toast ${notice.tone}`}><span>${notice.text}</span>
    <button type="button" class="icon-button" aria-label=${t("common.dismiss")} onClick=${() => forget(notice.id)}><${Icon} name="close" /></button></li>`;
}

export function Notices() {
  const list = useStore(notices, (value) => value.list);
  return html`<div class="toasts" role="status"><ul>${list.map((notice) => html`<${Shown} key=${notice.id} notice=${notice} />`)}</ul></div>`;
}
