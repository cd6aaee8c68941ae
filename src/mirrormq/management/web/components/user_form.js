// Fields of a user: tags as a set, and the password.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { KNOWN_TAGS } from "../lib/users.js";
import { Check, Field } from "./forms.js";

export function TagFields({ tags = [] }) {
  const others = tags.filter((tag) => !KNOWN_TAGS.includes(tag));
  return html`<fieldset class="tags-field wide"><legend>${t("user.tags")}</legend>
      <div class="checks">${KNOWN_TAGS.map((tag) => html`<span key=${tag} title=${t(`tag.${tag}`)}><${Check} label=${tag} name=${`tag.${tag}`} checked=${tags.includes(tag)} /></span>`)}</div>
      <${Field} label=${t("user.otherTags")} name="otherTags" value=${others.join(", ")} hint=${t("user.otherTagsHint")} /></fieldset>`;
}
