import {api, count, Empty, Filters, html, Link, Page, percent, Section, useGet, useRoute, useState} from './all.js'
import {curl, Listed, Once, shell, useList} from './act.js'
import {Fields} from './fields.js'
import {WEBHOOK_FIELDS} from './webhook-fields.js'
import {NextOf, Status} from './webhook-health.js'

export const title = 'Webhooks'

const commands = () => [
  shell('webhooks create https://customer.example.com/hooks --event order.paid'),
  curl('/webhooks', '{"url": "https://customer.example.com/hooks", "events": ["order.paid"]}'),
  shell('send event order.paid --data \'{"order": 4192}\''),
]

function Types({of}) {
  return html`<code class="wrap">${of.slice(0, 3).join(', ')}</code>${of.length > 3 && html` <span class="dim">and ${of.length - 3} more</span>`}`
}

export default function Webhooks() {
  const {query} = useRoute()
  const list = useList('/v1/webhooks', {url: query.url}, {every: 10_000})
  const stats = useGet('/v1/stats/endpoints', {hours: 24}, {every: 60_000})
  const [asks, setAsks] = useState(false)
  const [made, setMade] = useState(null)
  const of = new Map(stats.data?.data.map(it => [it.endpoint_id, it]))
  const create = async values => {
    setMade(await api.post('/v1/webhooks', values))
    setAsks(false)
    list.reload()
  }
  const columns = [
    {label: 'Status', cell: it => html`<${Status} webhook=${it}/>`},
    {label: 'URL', main: true, cell: it => html`<code class="wrap">${it.url}</code>${it.description && html`<br/><span class="dim">${it.description}</span>`}`},
    {label: 'Events', class: 'mid', cell: it => html`<${Types} of=${it.events}/>`},
    {label: 'What comes next', cell: it => html`<${NextOf} webhook=${it}/>`},
    ...(stats.data ? [
      {label: 'Delivered, 24 h', class: 'num', cell: it => percent(of.get(it.id)?.success_rate)},
      {label: 'p50, p95 ms', class: 'num', cell: it => `${count(of.get(it.id)?.duration_p50_ms)}, ${count(of.get(it.id)?.duration_p95_ms)}`},
    ] : []),
  ]
  return html`<${Page} title=${title} sub="Customers' endpoints, subscribed to types of events. Each delivery is signed, and repeated on a schedule until it is answered with a 2xx."
      actions=${html`<button type="button" class="primary" aria-expanded=${asks} onClick=${() => setAsks(!asks)}>New webhook</button>`}>
    ${made && html`<${Once} what="The new webhook's signing secret" secret=${made.secret} onClose=${() => setMade(null)}>
      The receiver checks signatures with it. <${Link} href=${`/webhooks/${made.id}?tab=test`}>Send a test<//> when it has it.<//>`}
    ${asks && html`<${Section} title="New webhook"><${Fields} fields=${WEBHOOK_FIELDS} submit="Create the webhook" run=${create} onCancel=${() => setAsks(false)}/><//>`}
    <${Filters} fields=${[{name: 'url', label: 'URL, exactly', type: 'text'}]}/>
    <${Listed} list=${list} name="webhooks" columns=${columns} rowHref=${it => `/webhooks/${it.id}`} none="No webhook has exactly this URL."
      empty=${!query.url && html`<${Empty} title="No webhooks yet." text="Create one, here or from a shell, and publish an event to it." command=${commands()}/>`}/>
  <//>`
}
