// A delivery: what happened, what comes next and when, and why then.
import {html, useState} from '../lib/dom.js'
import {api} from '../lib/api.js'
import {count, plural, words} from '../lib/format.js'
import {useKeys} from '../lib/keys.js'
import {Link} from '../lib/router.js'
import {Time, duration, exact, relative, useNow} from '../lib/time.js'
import {confirm} from './dialog.js'
import {Id} from './id.js'
import {State} from './state.js'
import {toast, toastError} from './toast.js'

const SHOWN = 5
const STANDARD = [5, 300, 1800, 7200, 18_000, 36_000, 36_000]
const KINDS = {
  dns: 'The name did not resolve', connect: 'The connection was refused', tls: 'TLS failed', timeout: 'It took too long',
  network: 'The connection broke', refused_address: 'The address is not allowed', status: 'The answer was no success',
  lost: 'The node stopped meanwhile; it does not count', local_unreachable: 'The local service does not answer', smtp: 'The mail server said no',
}
const REASONS = {
  exhausted: 'All attempts are used up', refused: 'The mail server refused it for good', uncertain: 'The mail server may have taken it: sending again could double it',
  endpoint_paused: 'The webhook was paused', requested: 'It was cancelled on request', endpoint_deleted: 'Its destination was deleted',
  source_deleted: 'Its source was deleted', expired: 'Its retention time was over',
}

/** Waits after the `used`-th attempt, in seconds, as far as the endpoint's schedule tells. */
function waitsAfter(schedule, used) {
  if (!schedule) return []
  if (schedule.kind === 'quadratic') {
    const length = Math.max(0, (schedule.attempts ?? 0) - used)
    return Array.from({length}, (_, at) => (used + at + 1) ** 2 * 60)
  }
  const all = schedule.kind === 'custom' ? schedule.waits_seconds : schedule.kind === 'standard' ? STANDARD : []
  return (all ?? []).slice(Math.max(0, used - 1))
}

/** What comes next, in a sentence: [headline, why]. */
export function next(delivery, now = Date.now()) {
  const {state, reason} = delivery
  const flying = delivery.attempts?.find(it => it.result === null || it.result === undefined)
  if (state === 'sending') {
    const since = flying ? ` since ${relative(flying.started_at, now).replace(' ago', '')}` : ''
    return [`Attempt ${flying?.number ?? delivery.attempts_used + 1} is in flight${since}`,
      delivery.cancel_requested ? 'Cancel was requested: this attempt is the last, its result ends the delivery' : 'Its result decides what comes next']
  }
  if (state === 'pending') {
    const why = delivery.wait_because
    const attempt = `Attempt ${delivery.attempts_used + 1} of ${delivery.attempts_max}`
    if (delivery.waiting_for === 'client') return [`${attempt} waits for a client`, why ?? 'No command-line client is connected: restante listen. Waiting uses no attempt']
    if (delivery.waiting_for === 'resume') return [`${attempt} waits until the destination is resumed`, why ?? 'Waiting uses no attempt']
    if (delivery.waiting_for === 'slot') return [`${attempt} is due and waits for a free slot`, why ?? 'max_in_flight or rate_per_second of the endpoint is reached. Waiting uses no attempt']
    const due = delivery.next_attempt_at
    if (!due) return [`${attempt} follows`, why]
    return [new Date(due) > now ? `${attempt} ${relative(due, now)}, at ${exact(due)}` : `${attempt} is due since ${exact(due)}`, why]
  }
  if (state === 'delivered') return ['Delivered. Nothing more happens', null]
  if (state === 'failed' && reason === 'refused' && delivery.attempts_used === 0) return ['Never attempted: the mailbox is on the list of suppressions', null]
  if (state === 'failed') return [`${REASONS[reason] ?? words(reason ?? 'failed')}. Nothing more happens by itself`, delivery.request_id ? 'A manual retry sends the same request to this destination again, with a fresh budget, for one credit' : null]
  if (state === 'skipped') return ['Never attempted: the webhook was paused', 'Recover on the webhook delivers what was skipped']
  return [`${REASONS[reason] ?? 'Cancelled'}. Nothing more happens`, null]
}

function Attempt({attempt}) {
  const {result} = attempt
  const state = result === 'delivered' ? 'delivered' : result === 'failed' ? 'failed' : 'sending'
  return html`<li class=${`attempt ${state}`}>
    <div class="attempt-head"><strong>Attempt ${attempt.number}</strong>
      <${State} of=${state} text=${result ? undefined : 'in flight'}/>
      ${attempt.response_status_code ? html`<span class="mono">${attempt.response_status_code}</span>` : null}
      ${result && html`<span>${duration(attempt.duration_ms)}</span>`}
      ${attempt.trigger !== 'automatic' && html`<span class="tag">${attempt.trigger}</span>`}
      ${attempt.channel !== 'http' && html`<span class="tag">${attempt.channel}</span>`}
      ${attempt.uses_budget === false && attempt.trigger === 'automatic' && html`<span class="tag">does not count</span>`}
      <span class="end"><${Time} at=${attempt.started_at} exactly ms/></span></div>
    ${attempt.error_kind && html`<p>${KINDS[attempt.error_kind] ?? words(attempt.error_kind)} <span class="tag mono">${attempt.error_kind}</span>${attempt.error_message ? html` <span class="mono">${attempt.error_message}</span>` : null}</p>`}
    <p class="dim mono">${attempt.url}</p></li>`
}

/** `endpoint` (a destination or webhook) tells the waits that follow. */
export function Timeline({delivery, endpoint}) {
  const now = useNow()
  const [all, setAll] = useState(false)
  const attempts = [...(delivery.attempts ?? [])].reverse()
  const shown = all ? attempts : attempts.slice(0, SHOWN)
  const [headline, why] = next(delivery, now)
  const open = delivery.state === 'pending' || delivery.state === 'sending'
  const later = open ? waitsAfter(endpoint?.schedule, delivery.attempts_used + 1) : []
  return html`<div class="timeline">
    <div class=${`next ${delivery.state}`}><p><span class="next-label">${open ? 'Next' : 'End'}</span><strong>${headline}</strong></p>
      ${why && html`<p>${why}</p>`}
      ${later.length > 0 && html`<p class="dim">If it fails: ${later.map(it => duration(it * 1000)).join(', ')} until the next try; after the last it ends as failed.</p>`}
      ${open && delivery.attempts_used + 1 >= delivery.attempts_max && html`<p class="dim">It is the last: if it fails, the delivery ends as failed.</p>`}
      ${delivery.ended_at && html`<p class="dim">Ended <${Time} at=${delivery.ended_at} exactly/></p>`}</div>
    <ol class="attempts" reversed>${shown.map(it => html`<${Attempt} key=${it.id} attempt=${it}/>`)}</ol>
    ${attempts.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show ${plural(attempts.length - SHOWN, 'older attempt')}</button>`}
    ${attempts.length === 0 && delivery.attempts && html`<p class="dim">No attempt is on record.${delivery.attempts_used > 0 ? ' Older ones are no longer kept.' : ''}</p>`}
  </div>`
}

const RETRYABLE = ['failed', 'cancelled', 'delivered']

/** Asks, retries, and gives the new delivery; null when it was not confirmed. */
export async function retryDelivery(delivery) {
  if (!RETRYABLE.includes(delivery.state)) {
    toast(`This delivery is ${delivery.state}: only failed, cancelled and delivered ones can be retried.`)
    return null
  }
  const event = Boolean(delivery.webhook_id)
  const said = await confirm(event
    ? {title: 'Replay this delivery?', body: 'The event goes to this webhook again, in one attempt, signed anew, with the same webhook-id.', confirm: 'Replay'}
    : {title: 'Retry this delivery?', confirm: 'Retry for 1 credit',
      body: `The stored request goes to this destination again as a new delivery with a fresh budget. It costs one credit.${delivery.state === 'delivered' ? ' It was already delivered: the receiver sees it twice, with the same key.' : ''}`})
  if (!said) return null
  try {
    const made = event
      ? await api.post(`/webhooks/${delivery.webhook_id}/deliveries/${delivery.id}/replay`)
      : await api.post(`/deliveries/${delivery.id}/retry`)
    toast(event ? 'The event is sent again.' : 'A new delivery is on its way.')
    return made
  } catch (error) {
    toastError(error)
    return null
  }
}

async function cancel(delivery) {
  const said = await confirm({title: 'Cancel this delivery?', danger: true, confirm: 'Cancel the delivery',
    body: delivery.state === 'sending' ? 'An attempt is in flight and cannot be called back: its result ends the delivery.' : 'No further attempt is made. Other destinations are not touched.'})
  if (!said) return null
  try {
    return await api.post(`/deliveries/${delivery.id}/cancel`)
  } catch (error) {
    toastError(error)
    return null
  }
}

/** A delivery with its endpoint and what can be done; `keyboard` makes `r` retry it. */
export function DeliveryCard({delivery, endpoint, onChanged, keyboard = false, titled = true}) {
  const act = what => async () => {
    const changed = await what(delivery)
    if (changed) onChanged?.(changed)
  }
  const retry = act(retryDelivery)
  useKeys(keyboard ? {r: ['Retry the delivery (asks)', retry]} : {})
  const target = delivery.destination_id ?? delivery.webhook_id
  const open = delivery.state === 'pending' || delivery.state === 'sending'
  const retryable = RETRYABLE.includes(delivery.state) && !delivery.email_id
  return html`<article class="card delivery" aria-label=${`Delivery ${delivery.id}`}>
    <header class="card-head"><${State} of=${delivery.state}/>
      ${titled && html`<span>${endpoint?.url ? html`<span class="mono">${endpoint.url}</span>` : delivery.recipient ?? html`<${Id} of=${target}/>`}</span>`}
      <span class="dim">${count(delivery.attempts_used)} of ${delivery.attempts_max} attempts used</span>
      <span class="end"><${Link} href=${`/deliveries/${delivery.id}`}><${Id} of=${delivery.id} link=${false}/><//></span></header>
    ${delivery.retry_of && html`<p class="dim">Manual retry of <${Id} of=${delivery.retry_of}/></p>`}
    <${Timeline} delivery=${delivery} endpoint=${endpoint}/>
    <div class="actions">
      ${retryable && html`<button type="button" onClick=${retry}>${delivery.webhook_id ? 'Replay' : 'Retry (1 credit)'}</button>`}
      ${open && html`<button type="button" disabled=${delivery.cancel_requested} onClick=${act(cancel)}>${delivery.cancel_requested ? 'Cancel requested' : 'Cancel'}</button>`}
    </div></article>`
}
