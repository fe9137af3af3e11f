// Nothing here yet: what to do next.
import {html} from '../lib/dom.js'
import {Command} from './copy.js'

/** `command`: one text or a list of them. */
export function Empty({title, text, command, children}) {
  return html`<div class="empty"><p><strong>${title}</strong></p>${text && html`<p>${text}</p>`}
    ${[command ?? []].flat().map(it => html`<${Command} key=${it}>${it}<//>`)}${children}</div>`
}
