// One source: its URL, its destinations, its settings.
import {html, useState} from '../lib/dom.js'
import {api, useGet} from '../lib/api.js'
import {percent, plural, quoted} from '../lib/format.js'
import {Link, navigate} from '../lib/router.js'
import {Time, duration} from '../lib/time.js'
import {BulkRetry, Retries} from '../parts/bulk.js'
import {Command, Copy} from '../parts/copy.js'
import {DestinationDialog} from '../parts/destination.js'
import {confirm} from '../parts/dialog.js'
import {Empty} from '../parts/empty.js'
import {schedule} from '../parts/endpoints.js'
import {Fault} from '../parts/fault.js'
import {Area, Check, Form, Text, useForm} from '../parts/form.js'
import {Id} from '../parts/id.js'
import {Facts, Loading, Page, Section} from '../parts/page.js'
import {State} from '../parts/state.js'
import {toast, toastError} from '../parts/toast.js'

export const title = 'Source'

function Destination({source, destination: it, health, onChanged}) {
  const [doing, does] = useState(null)
  const path = `/sources/${source.id}/destinations/${it.id}`
  const act = async (call, said) => {
    try {
      await call()
      toast(said)
      onChanged()
    } catch (error) { toastError(error) }
  }
  const pause = () => act(() => api.patch(path, {paused: !it.paused}), it.paused ? 'Resumed: what waits goes on at once.' : 'Paused: deliveries wait, and use no attempt.')
  const remove = async () => {
    const said = await confirm({title: 'Delete this destination?', danger: true, confirm: 'Delete the destination',
      body: `Deliveries that are pending to ${it.url} are cancelled. What was delivered stays on record, but cannot be retried.`})
    if (said) act(() => api.del(path), 'The destination is deleted.')
  }
  const done = () => { does(null); toast('Saved.'); onChanged() }
  const key = it.idempotency_header === true ? 'X-Adal-Idempotency' : it.idempotency_header || null
  return html`<article class="card" id=${it.id} aria-label=${`Destination ${it.url}`}>
    <header class="card-head"><${State} of=${it.paused ? 'paused' : 'active'}/><span class="tag">${it.kind}</span><strong class="mono wrap">${it.url}</strong><span class="end"><${Id} of=${it.id} link=${false}/></span></header>
    ${it.paused && html`<p class="note warn">Paused: its deliveries wait, use no attempt, and go on when it is resumed.</p>`}
    ${it.kind === 'cli' && source.clients_connected === 0 && html`<div class="note warn"><p>No client is connected to this server: its deliveries wait, and use no attempt. Connect one:</p><${Command}>restante listen 3000 --source ${quoted(source.name)}<//></div>`}
    <${Facts} of=${[
      ['Schedule', schedule(it.schedule)], ['Timeout', `${it.timeout_seconds} s`], ['At the same time', it.max_in_flight],
      ['Per second', it.rate_per_second], ['Key in header', key && html`<span class="mono">${key}</span>`], ['Static headers', Object.keys(it.headers).join(', ')],
      ['Last 24 h', health && html`<${Link} href=${`/deliveries?destination=${it.id}`}>${percent(health.success_rate)} of ${plural(health.attempts, 'attempt')} delivered<//>, p95 ${duration(health.duration_p95_ms)}`],
      ['Waiting', health?.backlog.pending ? plural(health.backlog.pending, 'delivery', 'deliveries') : null],
    ]}/>
    <div class="actions"><button type="button" onClick=${pause}>${it.paused ? 'Resume' : 'Pause'}</button><button type="button" onClick=${() => does('edit')}>Edit</button>
      <button type="button" onClick=${() => does('bulk')}>Retry many…</button><${Link} class="button" href=${`/deliveries?destination=${it.id}&state=failed`}>Failed deliveries<//>
      <button type="button" class="danger" onClick=${remove}>Delete</button></div>
    <${Retries} key=${String(doing)} destination=${it}/>
    ${doing === 'edit' && html`<${DestinationDialog} source=${source} destination=${it} onDone=${done} onClose=${() => does(null)}/>`}
    ${doing === 'bulk' && html`<${BulkRetry} destination=${it} onClose=${() => does(null)}/>`}
  </article>`
}

function Settings({source, onChanged}) {
  const form = useForm({
    name: source.name, retention_days: String(source.retention_days), deliver_pending_on_connect: source.deliver_pending_on_connect, own: Boolean(source.response),
    status: String(source.response?.status ?? 200), content_type: source.response?.content_type ?? 'application/json', body: source.response?.body ?? '{}',
  }, async values => {
    await api.patch(`/sources/${source.id}`, {
      name: values.name.trim(), retention_days: Number(values.retention_days), deliver_pending_on_connect: values.deliver_pending_on_connect,
      response: values.own ? {status: Number(values.status), content_type: values.content_type.trim(), body: values.body} : null,
    })
    toast('Saved.')
    onChanged()
  })
  return html`<${Form} form=${form} submit="Save the settings">
    <${Text} form=${form} name="name" label="Name"/>
    <${Text} form=${form} name="retention_days" label="Days that requests are kept" hint="1 to 365, counted from when they came. It acts on stored requests too: fewer days erase older ones."/>
    <${Check} form=${form} name="deliver_pending_on_connect" label="Hand pending deliveries to a client that connects" hint="Off: a client gets only deliveries that are created after it connected."/>
    <${Check} form=${form} name="own" label="Answer senders in its own words" hint="Off: 200 and the request's id."/>
    ${form.values.own && html`<div class="two"><${Text} form=${form} name="status" label="Status (200 to 599)"/><${Text} form=${form} name="content_type" label="Content type"/></div>
      <${Area} form=${form} name="body" label="Body" rows="3"/>`}
  <//>`
}

export default function SourcePage({id}) {
  const {data: source, error, reload} = useGet(`/sources/${id}`, undefined, {every: 10_000})
  const destinations = useGet(`/sources/${id}/destinations`, {limit: 100}, {every: 10_000})
  const health = useGet('/stats/endpoints', {hours: 24})
  const [making, make] = useState(false)
  if (!source) return html`<${Page} title=${title} heading=${html`Source <span class="mono">${id}</span>`}>${error ? html`<${Fault} error=${error} retry=${reload}/>` : html`<${Loading} what=${`source ${id}`}/>`}<//>`
  const changed = () => { reload(); destinations.reload() }
  const rotate = async () => {
    const said = await confirm({title: 'Give this source a new URL?', danger: true, confirm: 'Rotate the token', body: 'The old URL stops working at once: whoever sends to it gets 404 until it has the new one. Connected clients have to log in again.'})
    if (!said) return
    try {
      await api.post(`/sources/${id}/rotate-token`)
      toast('The source has a new URL.')
      reload()
    } catch (caught) { toastError(caught) }
  }
  const remove = async () => {
    const said = await confirm({title: `Delete ${source.name}?`, danger: true, confirm: 'Delete the source', body: 'Its URL stops working, its destinations are deleted, what is pending is cancelled. Its requests stay readable until they expire, but cannot be replayed.'})
    if (!said) return
    try {
      await api.del(`/sources/${id}`)
      toast('The source is deleted.')
      navigate('/sources', {replace: true})
    } catch (caught) { toastError(caught) }
  }
  const list = destinations.data?.data
  return html`<${Page} title=${source.name} sub=${html`<span class="row"><${Id} of=${id} whole link=${false}/><${Copy} text=${id} label="Copy id" class="small"/></span>`}
      actions=${html`<${Link} class="button" href=${`/requests?source=${id}`}>Requests<//><${Link} class="button" href=${`/requests?source=${id}&state=failed`}>Failed only<//>`}>
    <${Fault} error=${error} retry=${reload}/>
    <div class="card"><div class="row"><strong>URL</strong><span class="mono wrap grow">${source.url}</span><${Copy} text=${source.url} label="Copy URL"/></div>
      <${Facts} of=${[['Clients connected to this server', source.clients_connected > 0 ? html`<${State} of="active" text=${String(source.clients_connected)}/>` : 'none'],
        ['Requests are kept', plural(source.retention_days, 'day')], ['Made', html`<${Time} at=${source.created_at}/>`]]}/>
      <details><summary>Try it</summary><${Command}>${`curl ${source.url} -d '{"order":1042}'`}<//><${Command}>${`restante send request ${quoted(source.name)} --data '{"order":1042}'`}<//><${Command}>${`restante listen 3000 --source ${quoted(source.name)}`}<//></details></div>
    <${Section} title=${list ? plural(list.length, 'destination') : 'Destinations'} actions=${html`<button type="button" class="primary" onClick=${() => make(true)}>New destination</button>`}>
      <${Fault} error=${destinations.error} retry=${destinations.reload}/>
      ${!list && destinations.loading && html`<${Loading} what=${`destinations of ${source.name}`}/>`}
      ${list?.length === 0 && html`<${Empty} title="It has no destination: it is an inbox." text="It stores what comes and shows it. To have it delivered, give it a destination, or bring it to your own machine:"
        command=${[`restante destinations create --source ${quoted(source.name)} --url https://api.example.com/hooks`, `restante destinations create --source ${quoted(source.name)} --url http://localhost:3000 --cli`]}/>`}
      ${list?.map(it => html`<${Destination} key=${it.id} source=${source} destination=${it} onChanged=${changed} health=${health.data?.data.find(one => one.endpoint_id === it.id)}/>`)}
    <//>
    ${making && html`<${DestinationDialog} source=${source} onClose=${() => make(false)} onDone=${() => { make(false); toast('The destination is made: it gets what comes from now on.'); changed() }}/>`}
    <${Section} title="Settings"><${Settings} key=${source.updated_at} source=${source} onChanged=${reload}/><//>
    <${Section} title="Danger"><div class="actions"><button type="button" class="danger" onClick=${rotate}>Rotate the token</button><button type="button" class="danger" onClick=${remove}>Delete the source</button></div><//>
  <//>`
}
