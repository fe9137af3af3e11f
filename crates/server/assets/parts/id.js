// Ids: whole when copied, short when seen in a row.
import {html} from '../lib/dom.js'
import {Link} from '../lib/router.js'
import {pageFor} from '../lib/ids.js'

/** The middle of an id is drawn as dots, but stays in the text. */
export function Id({of, link = true}) {
  if (!of) return html`<span class="dim">–</span>`
  const at = of.indexOf('_') + 1
  const text = html`${of.slice(0, at)}<span class="id-mid">${of.slice(at, -8)}</span>${of.slice(-8)}`
  const page = link ? pageFor(of) : null
  return page ? html`<${Link} class="id" href=${page} title=${of}>${text}<//>` : html`<span class="id" title=${of}>${text}</span>`
}
