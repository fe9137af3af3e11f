// Text to take along.
import {html, useState} from '../lib/dom.js'
import {toastError} from './toast.js'

/** Copies; without the clipboard's permission (plain http on another host) by an old way. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  document.body.append(field)
  field.select()
  const done = document.execCommand('copy')
  field.remove()
  if (!done) throw new Error('The browser did not let this be copied.')
}

/** `text` may be a function, for what takes work to make. */
export function Copy({text, label = 'Copy', class: name = ''}) {
  const [done, setDone] = useState(false)
  const act = async () => {
    try {
      await copy(typeof text === 'function' ? await text() : text)
      setDone(true)
      setTimeout(() => setDone(false), 1500)
    } catch (error) { toastError(error) }
  }
  return html`<button type="button" class=${name} onClick=${act}><span aria-live="polite">${done ? 'Copied' : label}</span></button>`
}

/** A command to run in a shell. */
export function Command({children}) {
  const text = [children].flat(Infinity).join('')
  return html`<div class="command"><pre tabIndex="0">${text}</pre><${Copy} text=${text}/></div>`
}
