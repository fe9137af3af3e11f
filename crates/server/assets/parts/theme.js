// Light, dark, or as the system says.
import {cell, html, kept} from '../lib/dom.js'

const chosen = kept('restante.theme', 'auto')
const system = matchMedia('(prefers-color-scheme: dark)')

/** What is seen now: `light` or `dark`. */
export const theme = cell('light')

function apply() {
  const want = chosen.get()
  if (want === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = want
  theme.set(want === 'auto' ? (system.matches ? 'dark' : 'light') : want)
}
chosen.follow(apply)
system.addEventListener('change', apply)
apply()

export function ThemeChoice() {
  const now = chosen.use()
  return html`<select class="small" aria-label="Theme" onChange=${event => chosen.set(event.target.value)}>
    ${['auto', 'light', 'dark'].map(it => html`<option key=${it} value=${it} selected=${it === now}>${it === 'auto' ? 'auto theme' : it}</option>`)}</select>`
}
