// Paged list: the node filters, sorts and pages, so ten thousand queues are as fast as ten. Filter, order and page are
// in the address, so a reload, a link and the Back button restore them.
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { preferences, showColumn } from "../lib/preferences.js";
import { route, setQuery } from "../lib/router.js";
import { useStore } from "../lib/store.js";
import { useId } from "./forms.js";
import { Refusal } from "./basics.js";
import { Icon } from "./icons.js";
import { Table } from "./table.js";
import { useChosenVhost } from "./vhosts.js";

const PAGE_SIZES = [50, 100, 500];
const TYPING_MS = 250;

const wholeOf = (text) => (/^[1-9]\d*$/.test(text ?? "") ? Number(text) : 1);

// Filter and order of a list, as the address has them; a second list of a page has a prefix for its own.
export function useFilter(prefix = "") {
  const given = useStore(route, (value) => value.query);
  const name = given[`${prefix}name`] ?? "";
  const by = given[`${prefix}sort`];
  const reverse = given[`${prefix}reverse`] === "true";
  const change = (patch) => setQuery({ ...Object.fromEntries(Object.entries(patch).map(([key, value]) => [prefix + key, value])), page: undefined });
  const [typedName, setTypedName] = useState(name);
  useEffect(() => setTypedName(name), [name]);
  useEffect(() => {
    if (typedName === name) return undefined;
    const timer = setTimeout(() => change({ name: typedName }), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typedName, name]);
  const onSort = (next) => change(by !== next ? { sort: next, reverse: undefined } : reverse ? { sort: undefined, reverse: undefined } : { reverse: "true" });
  const setPattern = (checked) => change({ regex: checked ? "true" : undefined });
  return { name, pattern: given[`${prefix}regex`] === "true", sort: by ? { by, reverse } : null, typedName, setTypedName, setPattern, onSort };
}

// `inVhost(vhost)` is the path of the list in one vhost.
export function useListing(where, { every = 0, inVhost = (vhost) => `${where}/${encodeURIComponent(vhost)}` } = {}) {
  const given = useStore(route, (value) => value.query);
  const vhost = useChosenVhost();
  const filter = useFilter();
  const page = wholeOf(given.page);
  const size = PAGE_SIZES.includes(Number(given.size)) ? Number(given.size) : PAGE_SIZES[0];
  const { name, pattern, sort } = filter;
  const answer = useFetch(vhost ? inVhost(vhost) : where, {
    page, page_size: size, pagination: "true", name: name || undefined, use_regex: pattern ? "true" : "false",
    sort: sort?.by, sort_reverse: sort?.reverse ? "true" : undefined,
  }, { every });
  const isRefused = answer.error?.status === 400;
  useEffect(() => { // The page may no longer exist: objects were deleted, or the vhost is another one.
    if (page > 1 && (isRefused || answer.data?.page_count < page)) setQuery({ page: undefined });
  }, [answer.error, answer.data]);
  return { ...answer, ...filter, where, page, size, badPattern: isRefused && pattern && page === 1 };
}

function FilterField({ listing }) {
  const id = useId("filter");
  const { badPattern } = listing;
  return html`<div class="field"><label for=${id}>${t("list.filter")}</label>
      <input id=${id} type="search" value=${listing.typedName} placeholder=${t("list.filterHint")} autocomplete="off" spellcheck=${false}
        aria-invalid=${badPattern ? "true" : undefined} aria-describedby=${badPattern ? `${id}-wrong` : undefined}
        onInput=${(event) => listing.setTypedName(event.target.value)} />
      ${badPattern && html`<small id=${`${id}-wrong`} class="bad-text" role="alert">${t("list.badPattern")}</small>`}</div>
    <div class="check"><input type="checkbox" id=${`${id}-regex`} checked=${listing.pattern} onChange=${(event) => listing.setPattern(event.target.checked)} />
      <label for=${`${id}-regex`}>${t("list.regex")}</label></div>`;
}

const isShown = (column, chosen) => column.head || (chosen?.[column.id] ?? !column.optional);

function ColumnChoice({ list, columns }) {
  const chosen = useStore(preferences, (value) => value.columns[list]);
  const id = useId("columns");
  return html`<details class="column-choice"><summary class="button quiet"><${Icon} name="columns" /> ${t("list.columns")}</summary>
    <fieldset><legend class="unseen">${t("list.columns")}</legend>${columns.filter((column) => column && !column.head).map((column) => html`<div class="check" key=${column.id}>
      <input type="checkbox" id=${`${id}-${column.id}`} checked=${isShown(column, chosen)} onChange=${(event) => showColumn(list, column.id, event.target.checked)} />
      <label for=${`${id}-${column.id}`}>${column.label}</label></div>`)}</fieldset></details>`;
}

function Pager({ listing }) {
  const { data, page, size } = listing;
  const id = useId("size");
  if (!page || !data || data.filtered_count <= PAGE_SIZES[0]) return null; // A list without pages is shown whole.
  const turn = (to) => setQuery({ page: to > 1 ? to : undefined });
  return html`<nav class="pager" aria-label=${t("list.pages")}>
    <button type="button" class="button" disabled=${page <= 1} onClick=${() => turn(page - 1)}>${t("list.previous")}</button>
    <span>${t("list.page", { n: count(data.page), of: count(data.page_count) })}</span>
    <button type="button" class="button" disabled=${page >= data.page_count} onClick=${() => turn(page + 1)}>${t("list.next")}</button>
    <label for=${id} class="soft">${t("list.size")}</label>
    <select id=${id} onChange=${(event) => setQuery({ size: event.target.value, page: undefined })}>${PAGE_SIZES.map((each) => html`<option key=${each} value=${each} selected=${each === size}>${each}</option>`)}</select>
  </nav>`;
}

export function Listing({ listing, caption, columns, keyOf, empty, rows, children }) {
  const { data, badPattern } = listing;
  const chosen = useStore(preferences, (value) => value.columns[listing.where]);
  return html`<div class="toolbar" role="search"><${FilterField} listing=${listing} />${children}
      <${ColumnChoice} list=${listing.where} columns=${columns} />
      <p class="soft toolbar-count" role="status">${data && (data.filtered_count === data.total_count
        ? t("list.all", { n: count(data.total_count) })
        : t("list.some", { n: count(data.filtered_count), of: count(data.total_count) }))}</p></div>
    ${!badPattern && html`<${Refusal} error=${listing.error} />`}
    ${data
      ? html`<${Table} caption=${caption} columns=${columns.filter((column) => column && isShown(column, chosen))} rows=${rows || data.items} keyOf=${keyOf} sort=${listing.sort} onSort=${listing.onSort}
          empty=${listing.typedName ? t("list.noMatch") : empty} />`
      : listing.loading && html`<p class="nothing">${t("common.loading")}</p>`}
    <${Pager} listing=${listing} />`;
}
