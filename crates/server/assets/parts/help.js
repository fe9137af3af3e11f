// The keys that are heard on this page.
import {html} from '../lib/dom.js'
import {heard} from '../lib/keys.js'
import {Dialog} from './dialog.js'

export function Help({onClose}) {
  return html`<${Dialog} title="Keyboard" onClose=${onClose}>
    <dl class="keys">${[...heard(), ['Esc', 'Close, or leave a field']].map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
  <//>`
}
