// Short messages that go away.
import {cell, html} from '../lib/dom.js'

const toasts = cell([])
let last = 0

const drop = id => toasts.set(toasts.get().filter(it => it.id !== id))

function show(text, bad, ms) {
  const id = (last += 1)
  toasts.set([...toasts.get().slice(-3), {id, text, bad}])
  setTimeout(() => drop(id), ms)
}

export const toast = text => show(text, false, 5000)

/** An error of a call: with the request id, for the server's log. */
export function toastError(error) {
  show(`${error.message}${error.requestId ? ` (request ${error.requestId})` : ''}`, true, 12_000)
}

export function Toasts() {
  const shown = toasts.use()
  return html`<div class="toasts" role="status" aria-live="polite">${shown.map(it => html`
    <div key=${it.id} class=${it.bad ? 'toast bad' : 'toast'}><span>${it.bad ? '✕ ' : '✓ '}${it.text}</span>
      <button type="button" class="plain" aria-label="Dismiss" onClick=${() => drop(it.id)}>×</button></div>`)}</div>`
}
