// Whether what is seen is live, and why not.
import {html} from '../lib/dom.js'
import {relative, useNow} from '../lib/time.js'

const SAYS = {live: 'live', connecting: 'connecting…', reconnecting: 'reconnecting', polling: 'polling', off: 'not live'}

export function Live({status}) {
  const now = useNow()
  const next = status.nextAt && status.nextAt > now ? `, next try ${relative(status.nextAt, now)}` : ''
  return html`<span class=${`live live-${status.state}`} role="status">${SAYS[status.state]}${status.why ? html`<span class="dim">: ${status.why}${next}</span>` : null}</span>`
}
