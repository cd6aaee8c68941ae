// Rights of the user on a queue or exchange: the page shows no button that the node would refuse.
import { path } from "./api.js";
import { useFetch } from "./fetching.js";

const NONE = { configure: false, write: false, read: false };

// → {configure, write, read}; nothing is allowed until the node has replied.
export function useRights(vhost, name) {
  return useFetch(path("mirrormq", "rights", vhost, name)).data || NONE;
}

const NOTHING = ["", "^$"]; // Patterns that match no name that a user can declare.

// Vhosts in which the user may declare something; null until the node has replied.
export function useOwnVhosts() {
  const { data } = useFetch("mirrormq/rights");
  return data && data.filter((row) => !NOTHING.includes(row.configure)).map((row) => row.vhost);
}
