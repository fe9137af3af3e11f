// Retrying many deliveries: choose, preview, confirm, progress, result.
import {html, useState} from '../lib/dom.js'
import {api, useGet} from '../lib/api.js'
import {count, plural} from '../lib/format.js'
import {Link} from '../lib/router.js'
import {Time, fromField, toField} from '../lib/time.js'
import {Dialog} from './dialog.js'
import {Form, Select, Text, useForm} from './form.js'
import {Fault} from './fault.js'
import {State} from './state.js'

const DAY_MS = 86_400_000
const POLL_MS = 1500

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
  const choose = useForm({since: toField(Date.now() - DAY_MS), until: '', state: 'failed'}, async values => {
    // A bound is fixed now: what is counted is what is retried.
    const filter = {since: fromField(values.since), until: fromField(values.until) ?? new Date().toISOString(), state: values.state}
    setPreview({filter, ...await api.post(url, filter, {dry_run: true})})
  })
  const go = useForm({}, async () => setJob(await api.post(url, preview.filter)))
  return html`<${Dialog} title="Retry many deliveries" onClose=${onClose} wide><div>
    <p>To <span class="mono wrap">${destination.url}</span>: the latest delivery of each request, created in the span.</p>
    ${job ? html`<${Progress} destination=${destination} id=${job.id}/><button type="button" onClick=${onClose}>Close</button>`
      : preview ? html`
        <div class="note"><p><strong>${plural(preview.deliveries, 'delivery', 'deliveries')}, ${plural(preview.credits, 'credit')}</strong></p>
          <p>Each ${preview.filter.state} delivery between <${Time} at=${preview.filter.since} exactly/> and <${Time} at=${preview.filter.until} exactly/> is sent again as a new one with a fresh budget.</p></div>
        ${destination.paused && html`<p class="note warn">The destination is paused: the new deliveries wait until it is resumed.</p>`}
        ${preview.deliveries === 0 ? html`<div class="actions"><button type="button" onClick=${() => setPreview(null)}>Choose again</button></div>`
          : html`<${Form} form=${go} danger submit=${`Retry ${plural(preview.deliveries, 'delivery', 'deliveries')} for ${plural(preview.credits, 'credit')}`} onCancel=${() => setPreview(null)}/>`}`
        : html`<${Form} form=${choose} submit="Preview" onCancel=${onClose}>
          <${Select} form=${choose} name="state" label="State" options=${['failed', 'cancelled', 'delivered'].map(it => [it, it])}/>
          <div class="two"><${Text} form=${choose} name="since" type="datetime-local" step="1" label="Created since"/>
            <${Text} form=${choose} name="until" type="datetime-local" step="1" label="Until" hint="Now unless given."/></div><//>`}
  </div><//>`
}

/** Bulk retries of a destination, newest first. */
export function Retries({destination}) {
  const {data} = useGet(`${path(destination)}/retries`, {limit: 5})
  if (!data?.data.length) return null
  return html`<details><summary>${plural(data.data.length, 'bulk retry', 'bulk retries')}${data.has_more ? ' and more' : ''}</summary>${data.data.map(it => html`<p key=${it.id}>
    <${State} of=${it.state}/> ${count(it.created)} of ${count(it.total)} ${it.delivery_state} deliveries, <${Time} at=${it.created_at}/></p>`)}</details>`
}
