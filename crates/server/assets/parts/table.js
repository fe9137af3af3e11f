// A table that becomes cards on a narrow screen; j, k and Enter move and open.
import {html, useRef, useState} from '../lib/dom.js'
import {useKeys} from '../lib/keys.js'
import {Link, navigate} from '../lib/router.js'

/**
 * `columns`: `{label, cell: row => node, class?, main?}`; the `main` one (else the first) links to `rowHref(row)`.
 * `rowKeys`: `{key: [what, row => …]}` act on the selected row; `onSelect` hears of it. `empty` is shown when there are no rows.
 */
export function Table({columns, rows, rowKey = row => row.id, rowHref, rowClass, rowKeys = {}, empty, caption, keyboard = true, onSelect}) {
  const [selected, select] = useState(null)
  const body = useRef(null)
  const at = rows ? rows.findIndex(row => rowKey(row) === selected) : -1
  const move = step => {
    if (!rows?.length) return false
    const next = Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))
    select(rowKey(rows[next]))
    onSelect?.(rows[next])
    const row = body.current?.children[next]
    row?.scrollIntoView({block: 'nearest'})
    // The focus goes along: Enter opens, and a screen reader says the row.
    row?.querySelector('[data-main]')?.focus({preventScroll: true})
  }
  const onSelected = act => () => (at < 0 ? false : act(rows[at]))
  const keys = keyboard ? {
    j: ['Next row', () => move(1)],
    k: ['Row before', () => move(-1)],
    Enter: [rowHref && 'Open the selected row', onSelected(row => (rowHref ? navigate(rowHref(row)) : false))],
    ...Object.fromEntries(Object.entries(rowKeys).map(([key, [what, act]]) => [key, [what, onSelected(act)]])),
  } : {}
  useKeys(keys)
  if (rows && rows.length === 0) return empty ?? html`<p class="dim">Nothing here.</p>`
  const main = columns.find(column => column.main) ?? columns[0]
  const open = row => event => {
    if (!rowHref || event.defaultPrevented || event.target.closest('a, button, input, select, summary')) return
    if (String(getSelection())) return
    navigate(rowHref(row))
  }
  return html`<div class="table-box"><table class="table">
    ${caption && html`<caption class="unseen">${caption}</caption>`}
    <thead><tr>${columns.map(column => html`<th scope="col" key=${column.label} class=${column.class}>${column.label}</th>`)}</tr></thead>
    <tbody ref=${body}>${rows?.map(row => {
      const key = rowKey(row)
      return html`<tr key=${key} class=${[rowHref && 'opens', rowClass?.(row)].filter(Boolean).join(' ')} data-selected=${key === selected || undefined} onClick=${open(row)}>
        ${columns.map(column => html`<td key=${column.label} data-label=${column.label} class=${column.class}>${
          html`<div>${column === main && rowHref ? html`<${Link} href=${rowHref(row)} data-main>${column.cell(row)}<//>` : column.cell(row)}</div>`}</td>`)}
      </tr>`
    })}</tbody>
  </table></div>`
}
