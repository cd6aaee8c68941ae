// Table, shown as a list of cards on a narrow screen; a table for screen readers in both cases.
//
// Columns: {id, label, cell(row), numeric, short, sort, head, minor}. `head` marks the cell that names its row; a
// short cell stays on one line; a minor cell is omitted on cards.
import { html } from "../lib/html.js";
import { t } from "../lib/i18n.js";

const WHOLE_LETTERS_MAX = 24;

// Link with a name: a short name stays on one line, a long one may break.
export const Named = ({ href, name }) => html`<a class=${`name${name.length > WHOLE_LETTERS_MAX ? "" : " whole"}`} href=${href}>${name}</a>`;

function Heading({ column, sort, onSort }) {
  const direction = sort && sort.by === column.sort ? (sort.reverse ? "descending" : "ascending") : undefined;
  const inside = column.sort && onSort
    ? html`<button type="button" class="sort" onClick=${() => onSort(column.sort)}>${column.label}<span aria-hidden="true">${
      direction === "descending" ? " ↓" : direction ? " ↑" : ""}</span></button>`
    : column.label;
  return html`<th scope="col" role="columnheader" class=${column.numeric ? "numeric" : ""} aria-sort=${direction}>${inside}</th>`;
}

export function Table({ caption, columns, rows, keyOf, sort, onSort, empty }) {
  if (!rows) return null; // Nothing is known yet: "none" would be wrong.
  const shown = columns.filter(Boolean);
  if (!rows.length) return html`<p class="nothing">${empty || t("common.nothing")}</p>`;
  return html`<div class="table-box"><table class="table" role="table">
    <caption class="unseen">${caption}</caption>
    <thead role="rowgroup"><tr role="row">${shown.map((column) => html`<${Heading} key=${column.id} column=${column} sort=${sort} onSort=${onSort} />`)}</tr></thead>
    <tbody role="rowgroup">${rows.map((row) => html`<tr role="row" key=${keyOf(row)}>${shown.map((column) => {
      const attributes = { "data-label": typeof column.label === "string" ? column.label : "", class: `${column.numeric ? "numeric" : ""}${column.minor ? " minor" : ""}${column.short ? " short" : ""}` };
      return column.head
        ? html`<th scope="row" role="rowheader" key=${column.id} ...${attributes}>${column.cell(row)}</th>`
        : html`<td role="cell" key=${column.id} ...${attributes}><div>${column.cell(row)}</div></td>`;
    })}</tr>`)}</tbody>
  </table></div>`;
}
