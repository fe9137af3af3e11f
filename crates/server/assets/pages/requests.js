// What sources have received, live.
import {
  bytes, Empty, exact, Filters, FilterSwitch, html, Id, Page, pageOf, Pager, RequestState, SourceName, Table, TailHead, TailState, Time, useSources,
  useState, useTail,
} from './all.js'
import {useKeys} from '../lib/keys.js'

export const title = 'Requests'

const FILTERS = ['source', 'state', 'method', 'path', 'text', 'since', 'until']
const STATES = ['pending', 'delivered', 'failed', 'cancelled', 'none'].map(it => [it, it === 'none' ? 'no destination' : it])
const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE'].map(it => [it, it])

function Teach({filtered, sources, query}) {
  if (filtered) {
    return html`<${Empty} title="No request matches." text=${query.text
      ? 'A text is searched in the bodies of the last 24 hours, or in a span of at most 7 days that since and until give.'
      : 'Take a filter away, or widen the span.'}/>`
  }
  const source = Object.values(sources)[0]
  return source
    ? html`<${Empty} title="Nothing has come yet." text=${`Send something to ${source.name}:`}
        command=${[`curl ${source.url} -d '{"order":1042}'`, `restante send request ${source.name} --data '{"order":1042}'`]}/>`
    : html`<${Empty} title="There is no source yet." text="A source is a permanent URL that receives webhooks for you. Make one:"
        command=${['restante sources create shop', `curl ${location.origin}/v1/sources -H "Authorization: Bearer $KEY" -d '{"name":"shop"}'`]}/>`
}

export default function Requests({query}) {
  const sources = useSources()
  const [paused, pause] = useState(false)
  const [selected, select] = useState(false)
  const filters = Object.fromEntries(FILTERS.map(name => [name, query[name]]))
  const paging = query.cursor || query.ending_before
  const tail = useTail('/requests', {...filters, ...pageOf(query), limit: 50},
    {kinds: ['request', 'delivery'], on: !paging, held: paused || selected, pause: query.text ? 5000 : 1000})
  const toggle = () => {
    if (paused) { select(false); tail.show() }
    pause(!paused)
  }
  useKeys({p: ['Pause or resume the live tail', toggle], Escape: [null, () => { if (!selected) return false; select(false) }]})
  const filtered = FILTERS.some(name => query[name])

  return html`<${Page} title=${title} actions=${html`
      ${paused ? html`<span class="live" role="status">paused</span>` : html`<${TailState} tail=${tail} old=${paging}/>`}
      ${!paging && html`<button type="button" aria-pressed=${paused} onClick=${toggle}>${paused ? 'Resume' : 'Pause'} <kbd>p</kbd></button>`}`}>
    <${Filters} fields=${[
      {name: 'source', label: 'Source', type: 'choice', options: Object.values(sources).map(it => [it.id, it.name])},
      {name: 'state', label: 'State', type: 'choice', options: STATES},
      {name: 'method', label: 'Method', type: 'choice', options: METHODS},
      {name: 'path', label: 'Path contains'}, {name: 'text', label: 'Body contains'},
      {name: 'since', label: 'Since', type: 'time'}, {name: 'until', label: 'Until', type: 'time'},
    ]}><${FilterSwitch} name="state" value="failed" label="✕ Failed only"/><//>
    <${TailHead} tail=${tail} what="requests" onShow=${() => { select(false); tail.show() }}/>
    ${tail.rows && html`<${Table} caption="Requests, newest first" rows=${tail.rows} rowHref=${it => `/requests/${it.id}`} onSelect=${() => select(true)}
      rowClass=${it => (tail.born?.has(it.id) ? 'fresh' : '')} empty=${html`<${Teach} filtered=${filtered || paging} sources=${sources} query=${query}/>`}
      columns=${[
        {label: 'State', class: 'tight', cell: it => html`<${RequestState} request=${it}/>`},
        {label: 'Request', main: true, class: 'mono', cell: it => html`${it.method} ${it.path || '/'}${it.query ? html`<span class="dim">?${it.query}</span>` : null}`},
        {label: 'Source', class: 'clip', cell: it => html`<${SourceName} of=${it.source_id} sources=${sources}/>`},
        {label: 'Body', class: 'num tight', cell: it => bytes(it.body_bytes)},
        {label: 'Id', class: 'tight', cell: it => html`<${Id} of=${it.id}/>`},
        {label: 'Received', class: 'tight', cell: it => html`<span class="dim mono">${exact(it.received_at).slice(11)}</span> <${Time} at=${it.received_at}/>`},
      ]}/>`}
    <${Pager} page=${tail.page}/>
  <//>`
}
