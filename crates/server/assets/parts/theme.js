// Light, dark, or as the system says; the style sheet does the rest.
import {html, kept} from '../lib/dom.js'

const chosen = kept('restante.theme', 'auto')
const apply = () => { document.documentElement.dataset.theme = chosen.get() }
chosen.follow(apply)
apply()

export function ThemeChoice() {
  const now = chosen.use()
  return html`<select class="small" aria-label="Theme" onChange=${event => chosen.set(event.target.value)}>
    ${['auto', 'light', 'dark'].map(it => html`<option key=${it} value=${it} selected=${it === now}>${it === 'auto' ? 'auto theme' : it}</option>`)}</select>`
}
