// States as words with a shape: colour alone tells nothing.
import {html} from '../lib/dom.js'
import {words} from '../lib/format.js'

const LOOKS = {
  good: ['✓', 'delivered sent active verified done acknowledged'],
  bad: ['✕', 'failed bounced rejected revoked'],
  warn: ['!', 'degraded uncertain partial deferred'],
  wait: ['◷', 'pending queued scheduled processed accepted'],
  busy: ['▸', 'sending running'],
  off: ['‖', 'paused suppressed skipped'],
  none: ['○', 'none cancelled canceled ended draft'],
}
const OF = Object.fromEntries(Object.entries(LOOKS).flatMap(([look, [shape, states]]) =>
  states.split(' ').map(state => [state, [look, shape]])))

/** `look` (good, bad, warn, wait, busy, off, none) decides for words that are not states. */
export function State({of, text, look, title}) {
  const [kind, shape] = look ? [look, LOOKS[look][0]] : OF[of] ?? ['none', '○']
  return html`<span class=${`state ${kind}`} title=${title}><span aria-hidden="true">${shape}</span>${text ?? words(of)}</span>`
}

/** The state of a request: one that matched no destination says so. */
export function RequestState({request}) {
  if (request.rejected) return html`<${State} look="bad" of="rejected" text="rejected" title=${request.rejected_because}/>`
  if (request.duplicate_of) return html`<${State} look="none" of="none" text="duplicate" title="A repeat of ${request.duplicate_of}; it is not delivered"/>`
  if (request.state === 'none') return html`<${State} look="warn" of="none" text="no destination" title="It matched no destination"/>`
  return html`<${State} of=${request.state}/>`
}
