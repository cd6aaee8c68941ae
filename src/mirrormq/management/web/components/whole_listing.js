// List that the node sends whole, such as users: the page filters and sorts it, with the fields of a paged list.
import { useFilter } from "./listing.js";

const valueAt = (row, path) => path.split(".").reduce((value, key) => value?.[key], row);

function compare(one, other) {
  if (Array.isArray(one)) return compare(one.join(), (other || []).join());
  return typeof one === "string" || typeof other === "string" ? String(one ?? "").localeCompare(String(other ?? "")) : (one ?? 0) - (other ?? 0);
}

// As the node does for paged lists: a part of the name, or a regular expression, in any case.
function matcher(name, pattern) {
  if (!pattern) return (text) => text.toLowerCase().includes(name.toLowerCase());
  try {
    const expression = new RegExp(name, "iu");
    return (text) => expression.test(text);
  } catch {
    return null;
  }
}

// `answer` is what useFetch returned for an array of rows with names.
export function useWholeListing(where, answer, prefix = "") {
  const filter = useFilter(prefix);
  const { name, pattern, sort } = filter;
  const matches = matcher(name, pattern);
  const rows = answer.data || [];
  const items = rows.filter((row) => !name || !matches || matches(row.name));
  if (sort) items.sort((one, other) => compare(valueAt(one, sort.by), valueAt(other, sort.by)) * (sort.reverse ? -1 : 1));
  const data = answer.data && { items, filtered_count: items.length, total_count: rows.length };
  return { ...answer, ...filter, where, data, badPattern: matches === null };
}
