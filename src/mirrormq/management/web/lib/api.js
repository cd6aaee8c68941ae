// Request to the HTTP API, with errors as sentences.
import { t } from "./i18n.js";
import { end, session } from "./session.js";

export class Refused extends Error {
  constructor(status, text, loggedOut = false) {
    super(text);
    this.status = status;
    this.loggedOut = loggedOut;
  }
}

export const path = (...parts) => parts.map(encodeURIComponent).join("/");

export function address(where, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  const search = new URLSearchParams(given).toString();
  return `api/${where}${search ? `?${search}` : ""}`;
}

function spelled(reason) {
  return typeof reason === "string" ? reason : JSON.stringify(reason);
}

async function refusal(response) {
  const text = await response.text();
  let said = {};
  try {
    said = JSON.parse(text);
  } catch { /* Some errors have no body. */ }
  // RabbitMQ replies 401 to a wrong password and to missing permissions; only the text distinguishes them.
  const loggedOut = response.status === 401 && (text === "" || said.error === "not_authorized");
  const reason = said.reason !== undefined ? spelled(said.reason) : t("error.status", { status: response.status });
  return new Refused(response.status, reason, loggedOut);
}

// Header values are octets: other text than Latin 1 goes as UTF-8.
const octetsOf = (text) => String.fromCharCode(...new TextEncoder().encode(text));

// Sentence for the user about an error of a request.
export const sentence = (error) => (error.status === 0 ? error.message : t("error.said", { text: error.message }));

// `reason`: for the client whose connection is closed.
export async function open(where, { method = "GET", body, query, reason, signal, login = session.value.login } = {}) {
  const headers = { authorization: `Basic ${login}` };
  if (reason) headers["x-reason"] = octetsOf(reason);
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(address(where, query), {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, t("error.unreachable"));
  }
  if (response.ok) return response;
  const refused = await refusal(response);
  if (refused.loggedOut && login === session.value.login) end(true);
  throw refused;
}

export async function request(where, options) {
  const response = await open(where, options);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (where, query, signal) => request(where, { query, signal });
export const put = (where, body = {}) => request(where, { method: "PUT", body });
export const post = (where, body = {}) => request(where, { method: "POST", body });
// Run a control command, on a node of the cluster; administrators only. Its error has the status 200.
export async function control(verb, { words = [], options = {}, node } = {}) {
  const reply = await post("mirrormq/control", { verb, arguments: words, options, node });
  if (!reply.ok) throw new Refused(400, reply.error);
  return reply.result;
}

export const remove = (where, query) => request(where, { method: "DELETE", query });
