// Paged list: the node filters, sorts and pages, so ten thousand queues are as fast as ten.
import { useFetch } from "../lib/fetching.js";
import { count } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/html.js";
import { t } from "../lib/i18n.js";
import { useId } from "./forms.js";
import { Refusal } from "./basics.js";
import { Table } from "./table.js";

const PAGE_SIZE = 50;
const TYPING_MS = 250;

export function useListing(where, { every = 0, columns } = {}) {
  const [page, setPage] = useState(1);
  const [sort, setSort] = useState(null);
  const [typedName, setTypedName] = useState("");
  const [name, setName] = useState("");
  const [pattern, setPattern] = useState(false);
  useEffect(() => {
    if (typedName === name) return undefined;
    const timer = setTimeout(() => { setName(typedName); setPage(1); }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [typedName, name]);
  const query = {
    page, page_size: PAGE_SIZE, pagination: "true", name: name || undefined, use_regex: pattern ? "true" : "false",
    sort: sort?.by, sort_reverse: sort?.reverse ? "true" : undefined, columns,
  };
  const answer = useFetch(where, query, { every });
  useEffect(() => { // The last page may no longer exist.
    if (answer.error?.status === 400 && page > 1) setPage(1);
  }, [answer.error]);
  const onSort = (by) => setSort((before) => (before?.by !== by ? { by, reverse: false } : before.reverse ? null : { by, reverse: true }));
  return { ...answer, page, setPage, sort, onSort, typedName, setTypedName, pattern, setPattern };
}

export function Toolbar({ listing, children }) {
  const id = useId("filter");
  const { data } = listing;
  return html`<div class="toolbar" role="search">
    <div class="field"><label for=${id}>${t("list.filter")}</label>
      <input id=${id} type="search" value=${listing.typedName} placeholder=${t("list.filterHint")} autocomplete="off" spellcheck=${false}
        onInput=${(event) => listing.setTypedName(event.target.value)} /></div>
    <div class="check"><input type="checkbox" id=${`${id}-regex`} checked=${listing.pattern} onChange=${(event) => listing.setPattern(event.target.checked)} />
      <label for=${`${id}-regex`}>${t("list.regex")}</label></div>
    ${children}
    <p class="soft toolbar-count" role="status">${data && (data.filtered_count === data.total_count
      ? t("list.all", { n: count(data.total_count) })
      : t("list.some", { n: count(data.filtered_count), of: count(data.total_count) }))}</p>
  </div>`;
}

export function Pager({ listing }) {
  const { data, page, setPage } = listing;
  if (!data || data.page_count <= 1) return null;
  return html`<nav class="pager" aria-label=${t("list.pages")}>
    <button type="button" class="button" disabled=${page <= 1} onClick=${() => setPage(page - 1)}>${t("list.previous")}</button>
    <span>${t("list.page", { n: count(data.page), of: count(data.page_count) })}</span>
    <button type="button" class="button" disabled=${page >= data.page_count} onClick=${() => setPage(page + 1)}>${t("list.next")}</button>
  </nav>`;
}

export function Listing({ listing, caption, columns, keyOf, empty, rows, children }) {
  return html`<${Toolbar} listing=${listing}>${children}<//>
    <${Refusal} error=${listing.error} />
    ${listing.data
      ? html`<${Table} caption=${caption} columns=${columns} rows=${rows || listing.data.items} keyOf=${keyOf} sort=${listing.sort} onSort=${listing.onSort}
          empty=${listing.typedName ? t("list.noMatch") : empty} />`
      : listing.loading && html`<p class="nothing">${t("common.loading")}</p>`}
    <${Pager} listing=${listing} />`;
}
