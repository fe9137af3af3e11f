// Events published to webhooks.
import {
  api, Dialog, Empty, Filters, html, Id, navigate, Page, pageOf, Pager, plural, Table, TailHead, TailState, Time, toast, useState, useTail,
} from './all.js'
import {pretty} from '../parts/pretty.js'
import {Fields, wrong} from './fields.js'

export const title = 'Events'

/** The text as it is, once it is JSON: reading it would round its numbers. */
const checked = (text, name) => {
  try { pretty(text) } catch (error) { throw wrong(name, error.message) }
  return text
}
const FIELDS = [
  {name: 'type', label: 'Type', always: true, hint: 'Lower-case segments with dots between them, such as order.paid'},
  {name: 'data', label: 'Data (JSON)', kind: 'area', rows: 8, always: true, read: checked, hint: 'Sent as it is written here, less white space'},
]

function Publish({onClose}) {
  // One dialog is one intent: pressing twice, or again after a lost answer, publishes once.
  const [key] = useState(() => `dashboard-${crypto.getRandomValues(new Uint32Array(4)).join('-')}`)
  const run = async ({type, data}) => {
    const made = await api.post('/events', undefined, undefined, {text: `{"type":${JSON.stringify(type.trim())},"data":${data}}`, headers: {'idempotency-key': key}})
    toast(`Published to ${plural(made.deliveries, 'webhook')}.`)
    navigate(`/events/${made.id}`)
  }
  return html`<${Dialog} title="Publish an event" onClose=${onClose} wide><div>
    <p>It goes to every active webhook that is subscribed to its type, as a real event would.</p>
    <${Fields} fields=${FIELDS} of=${{type: 'test.event', data: '{\n  "hello": "world"\n}'}} submit="Publish" run=${run} onCancel=${onClose}/></div><//>`
}

export default function Events({query}) {
  const [publishing, publish] = useState(false)
  const paging = query.cursor || query.ending_before
  const {type, since, until} = query
  const tail = useTail('/events', {type, since, until, ...pageOf(query), limit: 50}, {kinds: ['event'], on: !paging})
  return html`<${Page} title=${title} actions=${html`<${TailState} tail=${tail} old=${paging}/><button type="button" class="primary" onClick=${() => publish(true)}>Publish an event</button>`}>
    ${publishing && html`<${Publish} onClose=${() => publish(false)}/>`}
    <${Filters} fields=${[{name: 'type', label: 'Exactly this type'}, {name: 'since', label: 'Since', type: 'time'}, {name: 'until', label: 'Until', type: 'time'}]}/>
    <${TailHead} tail=${tail} what="events"/>
    ${tail.rows && html`<${Table} caption="Events, newest first" rows=${tail.rows} rowHref=${it => `/events/${it.id}`}
      empty=${type || since || until || paging ? html`<${Empty} title="No event matches." text="The type is compared exactly; take a filter away."/>`
        : html`<${Empty} title="No event is published yet." text="An event goes to every webhook that is subscribed to its type. Make a webhook, then publish:"
            command=${[`restante send event order.paid --data '{"order":1042}' --idempotency-key order-1042-paid`, `curl ${location.origin}/v1/events -H "Authorization: Bearer $KEY" -H 'Idempotency-Key: order-1042-paid' -d '{"type":"order.paid","data":{"order":1042}}'`]}/>`}
      columns=${[
        {label: 'Type', main: true, class: 'mono', cell: it => it.type},
        {label: 'Deliveries', class: 'tight', cell: it => (it.deliveries === 0 ? html`<span class="dim">no webhook subscribed</span>` : plural(it.deliveries, 'delivery', 'deliveries'))},
        {label: 'Id', class: 'tight', cell: it => html`<${Id} of=${it.id}/>`},
        {label: 'Published', class: 'tight', cell: it => html`<${Time} at=${it.created_at}/>`},
      ]}/>`}
    <${Pager} page=${tail.page}/>
  <//>`
}
