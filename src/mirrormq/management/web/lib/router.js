// Router of hash addresses, `#/queues/%2F/orders?tab=bindings`: the server has one page, and the browser's history works.
import { Store } from "./store.js";

function parse(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter((part) => part !== "").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  // The default exchange has an empty name: an empty last part would vanish, so links write it as "amq.default".
  return { page: parts[0] || "overview", parts: parts.slice(1), query: Object.fromEntries(new URLSearchParams(search)), hash };
}

export const route = new Store(parse(location.hash));
addEventListener("hashchange", () => route.set(parse(location.hash)));

export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export function go(...parts) {
  location.hash = to(...parts);
}

// Change the query of this address; undefined and "" remove a name. The browser's history keeps one entry per page.
export function setQuery(patch) {
  const { page, parts, query } = route.value;
  const given = Object.entries({ ...query, ...patch }).filter(([, value]) => value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  const hash = `${to(page, ...parts)}${search ? `?${search}` : ""}`;
  history.replaceState(null, "", hash);
  route.set(parse(hash));
}
