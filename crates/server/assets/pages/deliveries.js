// Messages on their way, and what became of them.
import {
  duration, Empty, Filters, FilterSwitch, html, Id, next, Page, pageOf, Pager, retryDelivery, State, Table, TailHead, TailState, Time,
  useAllDestinations, useGet, useNow, useSources, useTail,
} from './all.js'

export const title = 'Deliveries'

const FILTERS = ['state', 'source', 'destination', 'webhook', 'request', 'event', 'email', 'since', 'until']
const STATES = ['pending', 'sending', 'delivered', 'failed', 'cancelled', 'skipped'].map(it => [it, it])

function What({delivery}) {
  const now = useNow()
  const [says] = next(delivery, now)
  return html`${says}${delivery.ended_at && delivery.state !== 'skipped' ? html`<span class="dim"> · after ${duration(new Date(delivery.ended_at) - new Date(delivery.created_at))}</span>` : null}`
}

function To({id, known}) {
  return known[id] ? html`<span class="mono" title=${id}>${known[id].url}</span>` : html`<${Id} of=${id}/>`
}

export default function Deliveries({query}) {
  const sources = useSources()
  const webhooks = useGet('/webhooks', {limit: 100})
  const known = {...useAllDestinations(query.source ? [query.source] : Object.keys(sources)), ...Object.fromEntries((webhooks.data?.data ?? []).map(it => [it.id, it]))}
  const filters = Object.fromEntries(FILTERS.map(name => [name, query[name]]))
  const paging = query.cursor || query.ending_before
  const tail = useTail('/deliveries', {...filters, ...pageOf(query), limit: 50}, {kinds: ['delivery'], on: !paging, pause: 1500})
  const retry = row => { retryDelivery(row).then(made => { if (made) tail.reload() }) }
  const ids = ['destination', 'request', 'event', 'email'].filter(name => query[name])
  return html`<${Page} title=${title} actions=${html`<${TailState} tail=${tail} old=${paging}/>`}>
    <${Filters} fields=${[
      {name: 'state', label: 'State', type: 'choice', options: STATES},
      {name: 'source', label: 'Source', type: 'choice', options: Object.values(sources).map(it => [it.id, it.name])},
      {name: 'webhook', label: 'Webhook', type: 'choice', options: (webhooks.data?.data ?? []).map(it => [it.id, it.url])},
      ...ids.map(name => ({name, label: `Of this ${name}`})),
      {name: 'since', label: 'Created since', type: 'time'}, {name: 'until', label: 'Until', type: 'time'},
    ]}><${FilterSwitch} name="state" value="failed" label="✕ Failed only"/><${FilterSwitch} name="state" value="pending" label="◷ Pending only"/><//>
    <${TailHead} tail=${tail} what="deliveries"/>
    ${tail.rows && html`<${Table} caption="Deliveries, newest first" rows=${tail.rows} rowHref=${it => `/deliveries/${it.id}`}
      rowKeys=${{r: ['Retry the selected delivery (asks)', retry]}}
      empty=${FILTERS.some(name => query[name]) || paging ? html`<${Empty} title="No delivery matches." text="Take a filter away, or widen the span."/>`
        : html`<${Empty} title="Nothing is on its way yet." text="A delivery is one message to one endpoint: a request to a destination, an event to a webhook, an email to a mailbox."
            command=${['restante destinations create --source shop --url https://api.example.com/hooks', `curl ${location.origin}/v1/deliveries?state=failed -H "Authorization: Bearer $KEY"`]}/>`}
      columns=${[
        {label: 'State', class: 'tight', cell: it => html`<${State} of=${it.state}/>`},
        {label: 'What happens', cell: it => html`<${What} delivery=${it}/>`},
        {label: 'Attempts', class: 'num tight', cell: it => `${it.attempts_used} of ${it.attempts_max}`},
        {label: 'Message', class: 'tight', cell: it => html`<${Id} of=${it.request_id ?? it.event_id ?? it.email_id}/>`},
        {label: 'To', class: 'clip', cell: it => it.recipient ?? html`<${To} id=${it.destination_id ?? it.webhook_id} known=${known}/>`},
        {label: 'Id', main: true, class: 'tight', cell: it => html`<${Id} of=${it.id} link=${false}/>`},
        {label: 'Created', class: 'tight', cell: it => html`<${Time} at=${it.created_at}/>`},
      ]}/>`}
    <${Pager} page=${tail.page}/>
  <//>`
}
