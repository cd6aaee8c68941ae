// Login of the user. Name and password are in this tab's session storage and are sent in a header that `api.js`
// sets: no cookie, nothing that a browser would send by itself.
import { Store } from "./store.js";

const KEY = "mirrormq.login";

function remembered() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const session = new Store({ login: remembered(), user: null, ended: false });

export function encodeLogin(name, password) {
  const octets = new TextEncoder().encode(`${name}:${password}`);
  return btoa(Array.from(octets, (octet) => String.fromCharCode(octet)).join(""));
}

export function begin(login, user) {
  try {
    sessionStorage.setItem(KEY, login);
  } catch { /* Without storage a reload asks for the login again. */ }
  session.set({ login, user, ended: false });
}

export function end(ended = false) {
  try {
    sessionStorage.removeItem(KEY);
  } catch { /* Without storage there is nothing to remove. */ }
  session.set({ login: null, user: null, ended });
}

export const has = (user, ...tags) => Boolean(user) && tags.some((tag) => user.tags.includes(tag));
export const isAdministrator = (user) => has(user, "administrator");
export const isMonitor = (user) => has(user, "administrator", "monitoring");
export const isPolicymaker = (user) => has(user, "administrator", "policymaker");
