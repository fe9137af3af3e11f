// What became of an email for each recipient, with the attempts and what comes next.
import {DeliveryCard, Fault, html, State, Time, useGet, useState, words} from './all.js'
import {Awaited} from './act.js'
import {addressText} from './emails.js'

/** So many recipients are shown with their attempts at once; of more, each is opened by a click. */
const OPEN_MAX = 3

export function Recipients({email}) {
  const {data, error, reload} = useGet('/v1/deliveries', {email: email.id, limit: 100}, {every: 4000})
  // An email has at most 150 recipients: two pages.
  const rest = useGet(data?.has_more ? '/v1/deliveries' : null, {email: email.id, limit: 100, cursor: data?.next_cursor}, {every: 4000})
  const byAddress = new Map([...data?.data ?? [], ...rest.data?.data ?? []].map(it => [it.recipient, it]))
  return html`<${Fault} error=${error} retry=${reload}/>
    ${email.recipients.map(it => html`<${Recipient} key=${it.id} recipient=${it} delivery=${byAddress.get(it.email)} taken=${email.transport === 'capture' ? 'captured' : 'taken by its mail server'} open=${email.recipients.length <= OPEN_MAX}/>`)}`
}

function Recipient({recipient, delivery, taken, open: first}) {
  const [open, setOpen] = useState(first)
  return html`<details class="card" open=${open} onToggle=${event => setOpen(event.currentTarget.open)}>
    <summary><${State} of=${recipient.status}/> <strong class="wrap">${addressText(recipient)}</strong> <span class="tag">${recipient.kind}</span>
      ${recipient.delivered_at ? html` ${taken} <${Time} exactly at=${recipient.delivered_at}/>` : null}
      ${delivery?.next_attempt_at && html` next attempt <${Time} exactly at=${delivery.next_attempt_at}/>`}</summary>
    ${recipient.error && html`<p class="wrap">${words(recipient.error)}</p>`}
    ${recipient.status === 'suppressed' && html`<p>The mailbox is on the list of suppressions: nothing was sent to it.</p>`}
    ${recipient.status === 'uncertain' && html`<p>The connection broke after all was sent: the mail server may have it. It is not sent again, for that could double it.</p>`}
    ${open && delivery && html`<${Attempts} key=${delivery.id} id=${delivery.id} going=${!delivery.ended_at}/>`}
  </details>`
}

function Attempts({id, going}) {
  const got = useGet(`/v1/deliveries/${id}`, null, {every: going ? 4000 : 0})
  if (!got.data) return html`<${Awaited} of=${got} what=${`the attempts of ${id}`}/>`
  return html`<${DeliveryCard} delivery=${got.data} titled=${false} onChanged=${got.reload}/>`
}
