// A webhook's health in words: how it is and since when, what comes next, and how to prevent it.
import {Chart, count, Facts, html, Link, percent, plural, State, Time, useGet, useMemo, withQuery} from './all.js'

/** The notice of the pause that a webhook is in; none when it was paused by hand. */
const pauseNotice = (webhook, notices) => notices?.find(it =>
  it.kind === 'webhook_paused' && it.webhook_id === webhook.id && webhook.failing_since && it.created_at >= webhook.failing_since)

/** Its status; an active one that fails is no good sign. */
export const Status = ({webhook}) => html`<${State} of=${webhook.status} look=${webhook.status === 'active' && webhook.failing_since ? 'warn' : null} text=${webhook.status === 'active' && webhook.failing_since ? 'failing' : null}/>`

const past = at => Date.parse(at) <= Date.now()

/** One line, for lists. */
export function NextOf({webhook}) {
  const {status, failing_since: since, consecutive_failures: failures, pauses_at: pauses} = webhook
  if (status === 'paused') return html`receives nothing until it is set active`
  if (!since) return html`<span class="dim">sends each event at once</span>`
  return html`${plural(failures, 'failure')} in a row since <${Time} at=${since}/>; ${past(pauses) ? 'the next pauses it' : html`pauses <${Time} at=${pauses}/> if it keeps failing`}`
}

function why(webhook, notice) {
  const since = html`it has been failing since <${Time} exactly at=${webhook.failing_since}/>`
  if (webhook.status === 'paused') {
    return notice
      ? html`Paused since <${Time} exactly at=${notice.created_at}/>, because it kept failing${notice.mailed_at ? '. The owners were told by mail' : ''}.`
      : html`Paused by hand. It was last changed <${Time} exactly at=${webhook.updated_at}/>.`
  }
  if (webhook.status === 'degraded') return html`Degraded: ${since}. It still receives everything.`
  return webhook.failing_since ? html`Active, but ${since}.` : html`Active. It is not failing.`
}

function next(webhook) {
  if (webhook.status === 'paused') return 'Nothing is sent. Events that come meanwhile are recorded as skipped. It never resumes by itself.'
  if (!webhook.failing_since) return 'Each event is sent at once. A failed attempt is repeated on its schedule.'
  if (past(webhook.pauses_at)) return 'The next failed attempt pauses it.'
  return html`A failed attempt at <${Time} exactly at=${webhook.pauses_at}/> or later pauses it.`
}

const guided = () => html`<${Link} href=${withQuery({tab: 'outage'})}>Step by step<//>`

function prevent(webhook) {
  if (webhook.status === 'paused') return html`Mend the receiver, test it, set it active, then recover what was skipped and replay what failed: ${guided()}`
  return webhook.failing_since ? html`Mend the receiver. A delivered attempt, a delivered test or a new URL ends the failing run: ${guided()}` : null
}

const backlog = ({pending, at_least: more, oldest_due_at: due}) =>
  html`${more ? 'at least ' : ''}${plural(pending, 'delivery', 'deliveries')}${due ? html`, the oldest due <${Time} at=${due}/>` : ''}`

/** `stats`: of `/v1/stats/endpoints`, if that is known. */
export function Health({webhook, notices, stats}) {
  return html`<section class="card" data-status=${webhook.status} aria-label="Health">
    <p><${Status} webhook=${webhook}/> <strong>${why(webhook, pauseNotice(webhook, notices))}</strong></p>
    <${Facts} of=${[
      ['What comes next', next(webhook)],
      [webhook.status === 'paused' ? 'What to do' : 'How to prevent it', prevent(webhook)],
      ['Failed in a row', webhook.consecutive_failures > 0 ? plural(webhook.consecutive_failures, 'automatic attempt') : null],
      ['Last 24 hours', stats && `${percent(stats.success_rate)} of ${plural(stats.attempts, 'attempt')} delivered; p50 ${count(stats.duration_p50_ms)} ms, p95 ${count(stats.duration_p95_ms)} ms`],
      ['Waiting', stats?.backlog && backlog(stats.backlog)],
    ]}/></section>`
}

/** Attempts over the last day, where the server keeps statistics. */
export function AttemptCharts({id}) {
  const {data} = useGet('/v1/stats', {hours: 24, webhook: id}, {every: 60_000})
  const drawn = useMemo(() => {
    if (!data) return null
    const values = name => data.points.map(it => it[name])
    return {
      at: data.points.map(it => Date.parse(it.at)),
      results: [{label: 'delivered', color: 'good', values: values('delivered')}, {label: 'failed attempts', color: 'bad', values: values('attempts_failed')}],
      times: [{label: 'p50', color: 'accent', values: values('duration_p50_ms')}, {label: 'p95', color: 'warn', values: values('duration_p95_ms')}],
    }
  }, [data])
  if (!drawn) return null
  const {totals} = data
  return html`<div class="charts">
    <${Chart} title="Deliveries, 24 h" at=${drawn.at} series=${drawn.results} summary=${`${count(totals.delivered)} delivered, ${plural(totals.attempts_failed, 'failed attempt')}`}/>
    <${Chart} title="Duration of attempts, ms" at=${drawn.at} series=${drawn.times} summary=${`p50 ${count(totals.duration_p50_ms)}, p95 ${count(totals.duration_p95_ms)}`}/></div>`
}
