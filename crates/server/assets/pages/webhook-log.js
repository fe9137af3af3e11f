// What was sent to a webhook: its attempts and its deliveries.
import {api, duration, Fault, html, Link, Loading, retryDelivery, State, Table, Time, useGet, useRoute, withQuery, words} from './all.js'
import {Act, Choice, idOf, Listed, textOf, timeOf, useList} from './act.js'

const attempts = [
  timeOf('Begun', 'attempted_at'),
  {label: 'Result', cell: it => html`<${State} of=${it.status === 'pending' ? 'sending' : it.status}/>`},
  {label: 'Answer', cell: it => it.failure_reason ?? it.response_status_code ?? html`<span class="dim">–</span>`},
  {label: 'Took', class: 'num', cell: it => (it.status === 'pending' ? '–' : duration(it.response_duration_ms))},
  {label: 'Attempt', class: 'num', cell: it => `${it.number}${it.trigger === 'automatic' ? '' : `, ${it.trigger}`}`},
  textOf('Type', 'event_type', {class: 'mono'}),
  idOf('Event', 'event_id'),
  idOf('Delivery', 'delivery_id'),
]

export function Attempts({path}) {
  const {query} = useRoute()
  const {data, error, reload} = useGet(`${path}/attempts`, {status: query.status, cursor: query.cursor}, {every: query.cursor ? 0 : 5000})
  return html`<${Choice} name="status" label="Status of the attempts" options=${[['', 'All'], ['failed', 'Failed'], ['delivered', 'Delivered'], ['pending', 'In flight']]}/>
    <${Fault} error=${error} retry=${reload}/>
    ${data ? html`<${Table} caption="Attempts, newest first" rows=${data.data} columns=${attempts} rowHref=${it => `/deliveries/${it.delivery_id}`}
      empty=${html`<p class="dim">No such attempts. They are kept for three days; of older ones only the state of their delivery is left.</p>`}/>` : !error && html`<${Loading} what="attempts"/>`}
    <nav class="pager" aria-label="Pages">${query.cursor && html`<${Link} class="button" href=${withQuery({cursor: null})}>Newest<//>`}
      ${data?.next_cursor && html`<${Link} class="button" href=${withQuery({cursor: data.next_cursor})}>Older →<//>`}</nav>`
}

function Next({delivery}) {
  if (delivery.next_attempt_at) return html`<${Time} at=${delivery.next_attempt_at}/> <span class="dim">${delivery.wait_because}</span>`
  if (delivery.ended_at) return html`<span class="dim">ended <${Time} at=${delivery.ended_at}/></span>`
  return delivery.waiting_for ? `waits for ${delivery.waiting_for}` : '–'
}

const REPLAY = {
  title: 'Send this event again?',
  body: 'One more attempt of this delivery, whatever its state, with the same webhook-id. It costs nothing and is not counted against the quota.',
}

const STATES = ['pending', 'sending', 'delivered', 'failed', 'cancelled', 'skipped']

export function Deliveries({path, paused}) {
  const {query} = useRoute()
  const list = useList(`${path}/deliveries`, {state: query.state}, {every: 5000})
  const replay = async id => {
    await api.post(`${path}/deliveries/${id}/replay`)
    list.reload()
  }
  const columns = [
    timeOf('Created', 'created_at'),
    {label: 'State', cell: it => html`<${State} of=${it.state}/>${it.reason && html` <span class="dim">${words(it.reason)}</span>`}`},
    {label: 'Attempts', class: 'num', cell: it => `${it.attempts_used} of ${it.attempts_max}`},
    {label: 'Next', cell: it => html`<${Next} delivery=${it}/>`},
    idOf('Event', 'event_id'),
    idOf('Delivery', 'id'),
    {label: 'Act', cell: it => html`<${Act} small label="Replay" disabled=${paused} title=${paused ? 'Set the webhook active first' : null}
      ask=${REPLAY} run=${() => replay(it.id)} done="It is sent again"/>`},
  ]
  return html`<${Choice} name="state" label="State of the deliveries" options=${[['', 'All'], ...STATES.map(it => [it, it])]}/>
    <${Listed} list=${list} name="deliveries" columns=${columns} rowKeys=${{r: ['Replay the selected delivery (asks)', it => { retryDelivery(it).then(list.reload) }]}} rowHref=${it => `/deliveries/${it.id}`} none="No such deliveries."/>`
}
