// One source: its URL, its destinations, its settings.
import {
  api, Command, Copy, duration, Empty, Facts, Fault, html, Id, Identity, Link, Loading, navigate, Page, percent, plural, quoted, schedule, Section,
  State, Time, toast, useEffect, useGet, useState, Waiting,
} from './all.js'
import {Act} from './act.js'
import {Fields, readJson} from './fields.js'
import {BulkRetry, Retries} from './source-bulk.js'
import {DestinationDialog} from './source-destination.js'

export const title = 'Source'

function Destination({source, destination: it, health, onChanged}) {
  const [doing, does] = useState(null)
  const path = `/sources/${source.id}/destinations/${it.id}`
  const change = call => async () => { await call(); onChanged() }
  const done = () => { does(null); toast('Saved.'); onChanged() }
  const key = it.idempotency_header === true ? 'X-Adal-Idempotency' : it.idempotency_header || null
  return html`<article class="card" id=${it.id} aria-label=${`Destination ${it.url}`}>
    <header class="card-head"><${State} of=${it.paused ? 'paused' : 'active'}/><span class="tag">${it.kind}</span><strong class="mono">${it.url}</strong><span class="end"><${Id} of=${it.id} link=${false}/></span></header>
    ${it.paused && html`<p class="note warn">Paused: its deliveries wait, use no attempt, and go on when it is resumed.</p>`}
    ${it.kind === 'cli' && source.clients_connected === 0 && html`<div class="note warn"><p>No client is connected to this server: its deliveries wait, and use no attempt. Connect one:</p><${Command}>restante listen 3000 --source ${quoted(source.name)}<//></div>`}
    <${Facts} of=${[
      ['Schedule', schedule(it.schedule)], ['Timeout', `${it.timeout_seconds} s`], ['At the same time', it.max_in_flight],
      ['Per second', it.rate_per_second], ['Key in header', key && html`<span class="mono">${key}</span>`], ['Static headers', Object.keys(it.headers).join(', ')],
      ['Last 24 h', health && html`<${Link} href=${`/deliveries?destination=${it.id}`}>${percent(health.success_rate)} of ${plural(health.attempts, 'attempt')} delivered<//>, p95 ${duration(health.duration_p95_ms)}`],
      ['Waiting', health?.backlog.pending ? plural(health.backlog.pending, 'delivery', 'deliveries') : null],
    ]}/>
    <div class="actions"><${Act} key=${it.paused} label=${it.paused ? 'Resume' : 'Pause'} run=${change(() => api.patch(path, {paused: !it.paused}))} done=${it.paused ? 'Resumed: what waits goes on at once.' : 'Paused: deliveries wait, and use no attempt.'}/><button type="button" onClick=${() => does('edit')}>Edit</button>
      <button type="button" onClick=${() => does('bulk')}>Retry many…</button><${Link} class="button" href=${`/deliveries?destination=${it.id}&state=failed`}>Failed deliveries<//>
      <${Act} danger label="Delete" run=${change(() => api.del(path))} done="The destination is deleted." ask=${{title: 'Delete this destination?', confirm: 'Delete the destination',
        body: `Deliveries that are pending to ${it.url} are cancelled. What was delivered stays on record, but cannot be retried.`}}/></div>
    <${Retries} key=${String(doing)} destination=${it}/>
    ${doing === 'edit' && html`<${DestinationDialog} source=${source} destination=${it} onDone=${done} onClose=${() => does(null)}/>`}
    ${doing === 'bulk' && html`<${BulkRetry} destination=${it} onClose=${() => does(null)}/>`}
  </article>`
}

const json = {kind: 'json', show: set => (set ? JSON.stringify(set, null, 2) : ''), read: (text, name) => (text.trim() === '' ? null : readJson(text, name))}
const SETTINGS = [
  {name: 'name', label: 'Name'},
  {name: 'retention_days', label: 'Days that requests are kept', kind: 'number', hint: '1 to 365, counted from when they came. It acts on stored requests too: fewer days erase older ones.'},
  {name: 'deliver_pending_on_connect', label: 'A client that connects is handed', kind: 'choice', show: String, read: text => text === 'true', options: [['true', 'what was pending, oldest first'], ['false', 'only what comes after it connected']]},
  {...json, name: 'verification', label: 'Signatures (JSON)', example: '{"kind": "github", "secret": "…"}',
    hint: 'kind (github, stripe, slack, shopify, standard_webhooks, hmac) and secret, which is not shown again: what is not signed with it is rejected. Empty: everything is delivered'},
  {...json, name: 'dedupe', label: 'Repeats (JSON)', example: '{"header": "X-GitHub-Delivery", "hours": 24}',
    hint: 'header or json_pointer, and hours (1 to 8760): a repeat is not delivered. Empty: everything is delivered'},
  {...json, name: 'response', label: 'Answer to senders (JSON)', example: '{"status": 200, "content_type": "text/plain", "body": "ok"}',
    hint: 'status (200 to 599), content_type and body; empty: 200 and the request\'s id'},
]

export default function SourcePage({id}) {
  const {data: source, error, reload} = useGet(`/sources/${id}`, undefined, {every: 10_000})
  const destinations = useGet(`/sources/${id}/destinations`, {limit: 100}, {every: 10_000})
  const health = useGet('/stats/endpoints', {hours: 24})
  const [making, make] = useState(false)
  const ready = Boolean(source && destinations.data)
  useEffect(() => { if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView() }, [ready])
  if (!source) return html`<${Waiting} title=${title} id=${id} error=${error} reload=${reload}/>`
  const changed = () => { reload(); destinations.reload() }
  const list = destinations.data?.data
  return html`<${Page} title=${source.name} sub=${html`<${Identity} id=${id}/>`}
      actions=${html`<${Link} class="button" href=${`/requests?source=${id}`}>Requests<//><${Link} class="button" href=${`/requests?source=${id}&state=failed`}>Failed only<//>`}>
    <${Fault} error=${error} retry=${reload}/>
    <div class="card"><div class="row"><strong>URL</strong><span class="mono grow">${source.url}</span><${Copy} text=${source.url} label="Copy URL"/></div>
      <${Facts} of=${[['Clients connected to this server', source.clients_connected > 0 ? html`<${State} of="active" text=${String(source.clients_connected)}/>` : 'none'],
        ['Requests are kept', plural(source.retention_days, 'day')], ['Signed as', source.verification?.kind], ['Repeats by', source.dedupe?.header ?? source.dedupe?.json_pointer], ['Made', html`<${Time} at=${source.created_at}/>`]]}/>
      <details><summary>Try it</summary><${Command}>${`curl ${source.url} -d '{"order":1042}'`}<//><${Command}>${`restante send request ${quoted(source.name)} --data '{"order":1042}'`}<//><${Command}>${`restante listen 3000 --source ${quoted(source.name)}`}<//></details></div>
    <${Section} title=${list ? plural(list.length, 'destination') : 'Destinations'} actions=${html`<button type="button" class="primary" onClick=${() => make(true)}>New destination</button>`}>
      <${Fault} error=${destinations.error} retry=${destinations.reload}/>
      ${!list && destinations.loading && html`<${Loading} what=${`destinations of ${source.name}`}/>`}
      ${list?.length === 0 && html`<${Empty} title="It has no destination: it is an inbox." text="It stores what comes and shows it. To have it delivered, give it a destination, or bring it to your own machine:"
        command=${[`restante destinations create --source ${quoted(source.name)} --url https://api.example.com/hooks`, `restante destinations create --source ${quoted(source.name)} --url http://localhost:3000 --cli`]}/>`}
      ${list?.map(it => html`<${Destination} key=${it.id} source=${source} destination=${it} onChanged=${changed} health=${health.data?.data.find(one => one.endpoint_id === it.id)}/>`)}
    <//>
    ${making && html`<${DestinationDialog} source=${source} onClose=${() => make(false)} onDone=${() => { make(false); toast('The destination is made: it gets what comes from now on.'); changed() }}/>`}
    <${Section} title="Settings"><${Fields} key=${source.updated_at} fields=${SETTINGS} of=${source} submit="Save the settings" run=${async changed => { await api.patch(`/sources/${id}`, changed); toast('Saved.'); reload() }}/><//>
    <${Section} title="Danger"><div class="actions">
      <${Act} danger label="Rotate the token" done="The source has a new URL." run=${async () => { await api.post(`/sources/${id}/rotate-token`); reload() }}
        ask=${{title: 'Give this source a new URL?', body: 'The old URL stops working at once: whoever sends to it gets 404 until it has the new one. Connected clients have to log in again.'}}/>
      <${Act} danger label="Delete the source" done="The source is deleted." run=${async () => { await api.del(`/sources/${id}`); navigate('/sources', {replace: true}) }}
        ask=${{title: `Delete ${source.name}?`, body: 'Its URL stops working, its destinations are deleted, what is pending is cancelled. Its requests stay readable until they expire, but cannot be replayed.'}}/></div><//>
  <//>`
}
