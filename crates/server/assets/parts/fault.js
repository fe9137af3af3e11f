// What went wrong, and the request id for the server's log.
import {html} from '../lib/dom.js'
import {Copy} from './copy.js'

export function Fault({error, retry}) {
  if (!error) return null
  const details = (error.details ?? []).filter(it => it.message !== error.message)
  return html`<div class="fault" role="alert">
    <p><strong>${error.message}</strong>${error.param ? html` <code>${error.param}</code>` : null}</p>
    ${details.length > 0 && html`<ul>${details.map(it => html`<li><code>${it.param}</code> ${it.message}</li>`)}</ul>`}
    ${error.code && html`<p class="dim">${error.status ? `${error.status} ` : ''}<code>${error.code}</code>
      ${error.requestId && html` · request <code>${error.requestId}</code> <${Copy} text=${error.requestId} class="small" label="Copy id"/>`}</p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`
}
