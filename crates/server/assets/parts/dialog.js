// Dialogs: the browser's own, which keep the focus inside and close with Esc.
import {cell, html, useEffect, useRef} from '../lib/dom.js'

export function Dialog({title, onClose, children, wide = false}) {
  const box = useRef(null)
  useEffect(() => {
    const before = document.activeElement
    box.current.showModal()
    box.current.querySelector('input, textarea, select')?.focus()
    return () => before?.focus?.()
  }, [])
  const outside = event => { if (event.target === box.current) onClose() }
  return html`<dialog ref=${box} class=${wide ? 'wide' : ''} aria-label=${title} onMouseDown=${outside}
      onCancel=${event => { event.preventDefault(); onClose() }}>
    <header><h2>${title}</h2><button type="button" class="plain" aria-label="Close" onClick=${onClose}>×</button></header>
    ${children}</dialog>`
}

const asked = cell(null)

/** Asks; true when confirmed. `body` is text or nodes; `confirm` names the act ("Delete the source"). */
export function confirm({title, body, danger = false, confirm: label = 'Confirm'}) {
  return new Promise(resolve => {
    asked.get()?.resolve(false)
    asked.set({title, body, danger, label, resolve})
  })
}

/** Where questions appear; once, in the shell. */
export function Questions() {
  const it = asked.use()
  if (!it) return null
  const answer = said => {
    asked.set(null)
    it.resolve(said)
  }
  return html`<${Dialog} key=${it.title} title=${it.title} onClose=${() => answer(false)}>
    <div class="dialog-body">${typeof it.body === 'string' ? html`<p>${it.body}</p>` : it.body}</div>
    <footer><button type="button" onClick=${() => answer(false)}>Keep as it is</button>
      <button type="button" class=${it.danger ? 'danger' : 'primary'} onClick=${() => answer(true)}>${it.label}</button></footer>
  <//>`
}
