// Login page: name and password, checked with `whoami`.
import { Choices } from "../components/frame.js";
import { Field } from "../components/forms.js";
import { Logo } from "../components/icons.js";
import { request } from "../lib/api.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { begin, encodeLogin, session } from "../lib/session.js";
import { useStore } from "../lib/store.js";

export function Login() {
  const ended = useStore(session, (value) => value.ended);
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => { document.title = `${t("login.title")} · MirrorMQ`; });
  const submit = async (event) => {
    event.preventDefault();
    const fields = new FormData(event.target);
    const login = encodeLogin(fields.get("username"), fields.get("password"));
    setBusy(true);
    try {
      begin(login, await request("whoami", { login }));
    } catch (error) {
      setWrong(error.loggedOut ? t("login.wrong") : error.message);
      event.target.querySelector("[name=password]").select();
    } finally {
      setBusy(false);
    }
  };
  return html`<div class="login">
    <main class="login-card">
      <${Logo} size=${72} />
      <h1>MirrorMQ</h1>
      <p class="soft">${t("login.text")}</p>
      <form class="form" onSubmit=${submit} aria-label=${t("login.title")}>
        <${Field} label=${t("login.name")} name="username" autocomplete="username" required wide autofocus />
        <${Field} label=${t("login.password")} name="password" type="password" autocomplete="current-password" required wide />
        <p class="refusal" role="alert" hidden=${!wrong && !ended}>${wrong || (ended ? t("login.ended") : "")}</p>
        <div class="form-actions"><button type="submit" class="button primary" disabled=${busy}>${t("login.button")}</button></div>
      </form>
      <${Choices} />
    </main>
  </div>`;
}
