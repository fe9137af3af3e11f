// One event: what it says, and each webhook that it goes to.
import {
  api, BodyView, DeliveryCard, Empty, Facts, Fault, html, Identity, Loading, Page, plural, quoted, Section, Time, useEffect, useGet, useMemo,
  useState, Waiting,
} from './all.js'
import {useLive} from '../lib/live.js'
import {member} from '../parts/pretty.js'

export const title = 'Event'

/** The data as it is written: reading it as numbers would round them. */
function useData(id) {
  const [text, setText] = useState(null)
  useEffect(() => {
    api.bytes(`/events/${id}`).then(it => setText(member(new TextDecoder().decode(it), 'data')), () => {})
  }, [id])
  return text
}

export default function EventPage({id}) {
  const {data: event, error, reload} = useGet(`/events/${id}`)
  const webhooks = useGet('/webhooks', {limit: 100})
  const data = useData(id)
  const byId = useMemo(() => Object.fromEntries((webhooks.data?.data ?? []).map(it => [it.id, it])), [webhooks.data])
  const live = useLive({}, events => { if (events.some(it => it.kind === 'lagged' || it.data.event_id === id)) reload() })
  if (!event) return html`<${Waiting} title=${title} id=${id} error=${error} reload=${reload}/>`
  const {deliveries} = event
  return html`<${Page} title=${event.type} heading=${html`<span class="mono">${event.type}</span>`}
    sub=${html`<${Identity} id=${id} live=${live}/>`}>
    <${Fault} error=${error} retry=${reload}/>
    <${Facts} of=${[['Happened', html`<${Time} at=${event.timestamp} exactly ms/>`], ['Published', html`<${Time} at=${event.created_at} exactly ms/>`], ['webhook-id that receivers see', html`<span class="mono">${id}</span>`]]}/>
    <div class="split"><div><${Section} title=${`Deliveries to ${plural(deliveries.length, 'webhook')}`}>
      ${deliveries.length === 0 && html`<${Empty} title="It went nowhere." text="No webhook was subscribed to its type when it was published. Subscribe one for the next:" command=${`restante webhooks create https://customer.example.com/hooks --event ${quoted(event.type)}`}/>`}
      ${deliveries.map(it => html`<${DeliveryCard} key=${it.id} delivery=${it} endpoint=${byId[it.webhook_id]} keyboard=${deliveries.length === 1} onChanged=${reload}/>`)}<//></div>
    <div><${Section} title="Data">${data !== null ? html`<${BodyView} raw=${data} contentType="application/json" name=${id}/>` : html`<${Loading} what=${`the data of ${id}`}/>`}<//></div></div>
  <//>`
}
