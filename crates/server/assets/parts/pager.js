// Newer and older, by cursors in the address.
import {html} from '../lib/dom.js'
import {Link, useRoute, withQuery} from '../lib/router.js'

/** `page`: a list of the API. On the first page nothing is newer. */
export function Pager({page}) {
  const {query} = useRoute()
  const first = !query.cursor && !query.ending_before
  const older = page?.next_cursor && (page.has_more || query.ending_before)
  const newer = !first && page?.prev_cursor
  if (first && !older) return null
  return html`<nav class="pager" aria-label="Pages of the list">
    ${first ? html`<span/>` : html`<${Link} class="button" href=${withQuery({cursor: null, ending_before: null})}>Newest<//>`}
    ${newer && html`<${Link} class="button" href=${withQuery({cursor: null, ending_before: page.prev_cursor})}>← Newer<//>`}
    ${older && html`<${Link} class="button" href=${withQuery({cursor: page.next_cursor, ending_before: null})}>Older →<//>`}
  </nav>`
}
