// Changes of users. The API replaces a user as a whole, so a change sends everything that shall stay.
import { get, path, put } from "./api.js";
import { t } from "./i18n.js";
import { begin, encodeLogin, end, session } from "./session.js";

export const KNOWN_TAGS = ["management", "policymaker", "monitoring", "administrator"];

// Tags of a form: one box per known tag, and a text for others.
export function tagsOf(fields) {
  const others = (fields.otherTags || "").split(",").map((tag) => tag.trim()).filter(Boolean);
  return [...new Set([...KNOWN_TAGS.filter((tag) => fields[`tag.${tag}`] === "on"), ...others])];
}

export class LastAdministrator extends Error {}

// The session of a user who changed their own password or tags: the next request carries the new password, the page shows
// what the new tags allow, and without any of these tags the node refuses every request.
function continueAs(self, tags, password) {
  if (!KNOWN_TAGS.some((tag) => tags.includes(tag))) return end(true);
  const login = password ? encodeLogin(self.name, password) : session.value.login;
  return begin(login, { ...self, tags });
}

// Save a user; `password`: text, null for none, undefined to keep it.
export async function saveUser({ name, tags, password }, self) {
  const users = await get("users");
  const known = users.find((each) => each.name === name);
  const others = users.filter((each) => each.name !== name && each.tags.includes("administrator"));
  if (known?.tags.includes("administrator") && !tags.includes("administrator") && !others.length) {
    throw new LastAdministrator(t("user.lastAdministrator", { name }));
  }
  const body = { tags };
  if (password) body.password = password;
  else if (password === null) body.password_hash = "";
  else if (known) Object.assign(body, { password_hash: known.password_hash, hashing_algorithm: known.hashing_algorithm });
  await put(path("users", name), body);
  if (name === self.name) continueAs(self, tags, password);
}
