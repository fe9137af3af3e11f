// Retrying many deliveries: choose, preview, confirm, progress, result.
import {api, count, Dialog, Fault, html, Link, plural, State, Time, useGet, useState} from './all.js'
import {Act} from './act.js'
import {Fields} from './fields.js'

const DAY_MS = 86_400_000
const POLL_MS = 1500

const FIELDS = [
  {name: 'state', label: 'State', kind: 'choice', always: true, options: ['failed', 'cancelled', 'delivered'].map(it => [it, it])},
  {name: 'since', label: 'Created since', kind: 'time', always: true}, {name: 'until', label: 'Until', kind: 'time', hint: 'Now unless given'},
]

const path = destination => `/sources/${destination.source_id}/destinations/${destination.id}`

function Progress({destination, id}) {
  const {data, error} = useGet(`${path(destination)}/retries`, {limit: 25}, {every: POLL_MS})
  const job = data?.data.find(it => it.id === id)
  if (!job) return html`<${Fault} error=${error}/><p role="status">Waiting for the retry to begin…</p>`
  return html`<p role="status"><${State} of=${job.state}/> ${count(job.created)} of ${plural(job.total, 'delivery', 'deliveries')} created.</p>
    <progress max=${job.total} value=${job.created} aria-label="Deliveries created"/>
    ${job.state === 'ended' && html`<p class="note bad">It stopped early: the credits ran out, or the destination is gone.</p>`}
    ${job.state !== 'running' && html`<p><${Link} href=${`/deliveries?destination=${destination.id}&since=${encodeURIComponent(job.created_at)}`}>See what became of them<//></p>`}`
}

export function BulkRetry({destination, onClose}) {
  const [preview, setPreview] = useState(null)
  const [job, setJob] = useState(null)
  const url = `${path(destination)}/retry`
  const look = async ({state, since, until}) => {
    // The bound is fixed now: what is counted is what is retried.
    const filter = {state, since, until: until ?? new Date().toISOString()}
    setPreview({filter, ...await api.post(url, filter, {dry_run: true})})
  }
  return html`<${Dialog} title="Retry many deliveries" onClose=${onClose} wide><div>
    <p>To <span class="mono">${destination.url}</span>: the latest delivery of each request, created in the span.</p>
    ${job ? html`<${Progress} destination=${destination} id=${job.id}/><button type="button" onClick=${onClose}>Close</button>`
      : preview ? html`
        <div class="note"><p><strong>${plural(preview.deliveries, 'delivery', 'deliveries')}, ${plural(preview.credits, 'credit')}</strong></p>
          <p>Each ${preview.filter.state} delivery between <${Time} at=${preview.filter.since} exactly/> and <${Time} at=${preview.filter.until} exactly/> is sent again as a new one with a fresh budget.</p></div>
        ${destination.paused && html`<p class="note warn">The destination is paused: the new deliveries wait until it is resumed.</p>`}
        <div class="actions">${preview.deliveries > 0 && html`<${Act} danger label=${`Retry ${plural(preview.deliveries, 'delivery', 'deliveries')} for ${plural(preview.credits, 'credit')}`} run=${async () => setJob(await api.post(url, preview.filter))}/>`}
          <button type="button" onClick=${() => setPreview(null)}>Choose again</button></div>`
        : html`<${Fields} fields=${FIELDS} of=${{state: 'failed', since: new Date(Date.now() - DAY_MS).toISOString()}} submit="Preview" run=${look} onCancel=${onClose}/>`}
  </div><//>`
}

/** Bulk retries of a destination, newest first. */
export function Retries({destination}) {
  const {data} = useGet(`${path(destination)}/retries`, {limit: 5})
  if (!data?.data.length) return null
  return html`<details><summary>${plural(data.data.length, 'bulk retry', 'bulk retries')}${data.has_more ? ' and more' : ''}</summary>${data.data.map(it => html`<p key=${it.id}>
    <${State} of=${it.state}/> ${count(it.created)} of ${count(it.total)} ${it.delivery_state} deliveries, <${Time} at=${it.created_at}/></p>`)}</details>`
}
