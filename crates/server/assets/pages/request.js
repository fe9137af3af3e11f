// One request: where it went, and what it is.
import {
  api, BodyView, bytes, Copy, copy, DeliveryCard, Empty, Facts, Fault, html, Id, Identity, Link, navigate, Page, plural, RequestState, Section,
  SourceName, State, Time, toast, toastError, useDestinations, useGet, useSources, useState, Waiting,
} from './all.js'
import {useKeys} from '../lib/keys.js'
import {useLive} from '../lib/live.js'
import {curl, provesSender} from '../parts/curl.js'
import {Act} from './act.js'

export const title = 'Request'

/** `[destination, its deliveries, newest first]`; what needs a look comes first. */
function grouped(deliveries) {
  const groups = new Map()
  for (const delivery of deliveries) groups.set(delivery.destination_id, [delivery, ...(groups.get(delivery.destination_id) ?? [])])
  const rank = ([, [latest]]) => ['failed', 'sending', 'pending', 'cancelled', 'delivered'].indexOf(latest.state)
  for (const list of groups.values()) list.sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
  return [...groups].sort((a, b) => rank(a) - rank(b))
}

function Nowhere({request, source}) {
  const why = request.rejected ? `It was rejected: ${request.rejected_because}. It is stored, not delivered.`
    : request.duplicate_of ? html`It repeats <${Id} of=${request.duplicate_of}/>: a duplicate is stored, not delivered.`
      : 'When it came, its source had no destination: it was stored and shown, nothing more.'
  return html`<${Empty} title="It went nowhere." text=${why}
    command=${request.rejected || request.duplicate_of ? [] : [`restante destinations create --source ${source?.name ?? request.source_id} --url https://api.example.com/hooks`]}>
    <p>A replay sends a copy to the destinations of now.</p><//>`
}

function CurlBar({request, source, destinations}) {
  const [proof, setProof] = useState(false)
  const [to, setTo] = useState('source')
  const base = to === 'source' ? source?.url ?? `${location.origin}/in/TOKEN` : to === 'local' ? 'http://localhost:3000' : destinations[to]?.url
  const make = () => curl(request, base, {proof})
  const proofs = request.headers.filter(([name]) => provesSender(name)).length
  useKeys({c: ['Copy as curl', () => { make().then(copy).then(() => toast(proof ? 'Copied as curl, with signature headers.' : 'Copied as curl, without signature headers.'), toastError) }]})
  return html`<div class="bar"><${Copy} text=${make} label="Copy as curl"/>
    <label class="row">to <select class="small" onChange=${event => setTo(event.target.value)}>
      <option value="source">its source</option><option value="local">localhost:3000</option>
      ${Object.values(destinations).map(it => html`<option key=${it.id} value=${it.id}>${it.url}</option>`)}</select></label>
    <label class="row"><input type="checkbox" checked=${proof} onChange=${event => setProof(event.target.checked)}/> with ${plural(proofs, 'signature or secret header')}</label></div>`
}

export default function RequestPage({id}) {
  const {data: request, error, reload} = useGet(`/requests/${id}`)
  const sources = useSources()
  const destinations = useDestinations(request?.source_id)
  const live = useLive({}, events => { if (events.some(it => it.kind === 'lagged' || it.data.request_id === id)) reload() })
  if (!request) return html`<${Waiting} title=${title} id=${id} error=${error} reload=${reload}/>`
  const source = sources[request.source_id]
  const groups = grouped(request.deliveries)

  const replay = async () => navigate(`/requests/${(await api.post(`/requests/${id}/replay`)).id}`)
  const erase = async () => {
    await api.del(`/requests/${id}`)
    navigate('/requests', {replace: true})
  }

  const line = html`<span class="mono">${request.method} ${request.path || '/'}${request.query ? `?${request.query}` : ''}</span>`
  return html`<${Page} title=${`${request.method} ${request.path || '/'}`} heading=${line}
    sub=${html`<${Identity} id=${id} state=${html`<${RequestState} request=${request}/>`} live=${live}/>`}
    actions=${html`
      <${Act} label="Replay (1 credit)" run=${replay} done="Replayed: this is the new request." ask=${{title: 'Replay this request?', confirm: 'Replay for 1 credit',
        body: 'A new request, copied from this one with a new key, goes to the destinations that its source has now. This one stays as it is. It costs one credit.'}}/>
      <${Act} danger label="Delete" run=${erase} done="The request is deleted." ask=${{title: 'Delete this request?', confirm: 'Delete for good',
        body: `The request, ${plural(request.deliveries.length, 'delivery', 'deliveries')} and all attempts are erased. What is pending is cancelled. It cannot be undone.`}}/>`}>
    <${Fault} error=${error} retry=${reload}/>
    <${Facts} of=${[
      ['Received', html`<${Time} at=${request.received_at} exactly ms/>`],
      ['Source', html`<${SourceName} of=${request.source_id} sources=${sources}/>`],
      ['From', html`<span class="mono">${request.remote_address}</span>`],
      ['Body', bytes(request.body_bytes)],
      ['Key that receivers see', html`<span class="mono">${request.key}</span>`],
      ['Replay of', request.replay_of && html`<${Id} of=${request.replay_of}/>`],
      ['Duplicate of', request.duplicate_of && html`<${Id} of=${request.duplicate_of}/>`],
      ['Kept until', html`<${Time} at=${request.expires_at}/>`],
    ]}/>
    <div class="split"><div>
      <${Section} title=${`Deliveries to ${plural(groups.length, 'destination')}`}>
        ${groups.length === 0 && html`<${Nowhere} request=${request} source=${source}/>`}
        ${groups.map(([destination, [latest, ...older]]) => html`<div key=${destination}>
          <${DeliveryCard} delivery=${latest} endpoint=${destinations[destination]} keyboard=${groups.length === 1} onChanged=${reload}/>
          ${older.length > 0 && html`<details class="older"><summary>${plural(older.length, 'earlier delivery', 'earlier deliveries')} to it</summary>
            ${older.map(it => html`<p key=${it.id}><${State} of=${it.state}/> <${Link} href=${`/deliveries/${it.id}`}><${Id} of=${it.id} link=${false}/><//> <${Time} at=${it.created_at}/>, ${plural(it.attempts_used, 'attempt')}</p>`)}</details>`}</div>`)}
      <//></div><div>
      <${Section} title="Body" actions=${html`<${CurlBar} request=${request} source=${source} destinations=${destinations}/>`}>
        <${BodyView} requestId=${id} contentType=${request.content_type} bytes=${request.body_bytes}/><//>
      <${Section} title=${plural(request.headers.length, 'header')} actions=${html`<${Copy} text=${request.headers.map(it => it.join(': ')).join('\n')} label="Copy headers"/>`}>
        <dl class="headers">${request.headers.map(([name, value], at) => html`<div key=${at}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl><//>
    </div></div>
  <//>`
}
