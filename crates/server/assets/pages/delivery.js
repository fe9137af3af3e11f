// One delivery: what happened, what comes next and when, and why then.
import {
  DeliveryCard, Facts, Fault, html, Id, Identity, Link, navigate, Page, schedule, SourceName, State, Time, useDestinations, useGet, useSources,
  Waiting,
} from './all.js'
import {useLive} from '../lib/live.js'

export const title = 'Delivery'

export default function DeliveryPage({id}) {
  const {data: delivery, error, reload} = useGet(`/deliveries/${id}`)
  const request = useGet(delivery?.request_id ? `/requests/${delivery.request_id}` : null)
  const webhook = useGet(delivery?.webhook_id ? `/webhooks/${delivery.webhook_id}` : null)
  const sources = useSources()
  const destinations = useDestinations(request.data?.source_id)
  const live = useLive({}, events => { if (events.some(it => it.kind === 'lagged' || it.data.id === id)) reload() })
  if (!delivery) return html`<${Waiting} title=${title} id=${id} error=${error} reload=${reload}/>`
  const endpoint = destinations[delivery.destination_id] ?? webhook.data
  const message = delivery.request_id ?? delivery.event_id ?? delivery.email_id
  const changed = made => (made.id && made.id !== id && made.object === 'delivery' ? navigate(`/deliveries/${made.id}`) : reload())
  return html`<${Page} title=${title} heading=${html`Delivery to <span class="mono">${endpoint?.url ?? delivery.recipient ?? delivery.destination_id ?? delivery.webhook_id}</span>`}
    sub=${html`<${Identity} id=${id} state=${html`<${State} of=${delivery.state}/>`} live=${live}/>`}>
    <${Fault} error=${error} retry=${reload}/>
    <${Facts} of=${[
      [delivery.request_id ? 'Request' : delivery.event_id ? 'Event' : 'Email', html`<${Id} of=${message}/>${request.data ? html` <span class="mono">${request.data.method} ${request.data.path || '/'}</span>` : null}`],
      ['Source', request.data && html`<${SourceName} of=${request.data.source_id} sources=${sources}/>`],
      ['Destination', delivery.destination_id && html`<${Link} href=${request.data ? `/sources/${request.data.source_id}#${delivery.destination_id}` : '/sources'}><${Id} of=${delivery.destination_id} link=${false}/><//>`],
      ['Webhook', delivery.webhook_id && html`<${Id} of=${delivery.webhook_id}/>${webhook.data && webhook.data.status !== 'active' ? html` <${State} of=${webhook.data.status}/>` : null}`],
      ['Mailbox', delivery.recipient],
      ['Created', html`<${Time} at=${delivery.created_at} exactly ms/>`],
      ['Schedule', endpoint && schedule(endpoint.schedule)],
    ]}/>
    <${DeliveryCard} delivery=${delivery} endpoint=${endpoint} titled=${false} keyboard onChanged=${changed}/>
  <//>`
}
