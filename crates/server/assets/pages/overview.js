// How things stand: what needs a person, what waits, how fast messages arrive.
import {
  Chart, count, duration, Empty, Fault, html, Link, Loading, Page, percent, plural, Section, State, Table, Time, useAllDestinations, useGet, useMemo,
  useSources, words,
} from './all.js'
import {Choice} from './act.js'

export const title = 'Overview'

const EVERY_MS = 5000
const SLOW_MS = 15_000
const DAY_MS = 86_400_000
const FAILING_BELOW = 0.5
const SPANS = [['1', '1 h'], ['6', '6 h'], ['24', '24 h'], ['168', '7 d']]

const perMinute = (n, stats) => n / Math.max(1, (stats.points.length * stats.step_seconds) / 60)

function Figure({label, value, sub, bad, href}) {
  return html`<div class=${bad ? 'number bad' : 'number'}><dt>${label}</dt><dd>${href ? html`<${Link} href=${href}>${value}<//>` : value}${sub && html`<small>${sub}</small>`}</dd></div>`
}

function Numbers({stats}) {
  const {totals, backlog} = stats
  const late = backlog.oldest_due_at && new Date(backlog.oldest_due_at) < Date.now() - 10_000
  return html`<dl class="numbers">
    <${Figure} label="Accepted" value=${`${count(perMinute(totals.accepted, stats))}/min`} sub=${plural(totals.accepted, 'message')}/>
    <${Figure} label="Delivered" value=${`${count(perMinute(totals.delivered, stats))}/min`} sub=${plural(totals.delivered, 'delivery', 'deliveries')}/>
    <${Figure} label="Failed for good" value=${count(totals.failed)} sub=${`${count(totals.attempts_failed)} failed attempts`} bad=${totals.failed > 0} href="/deliveries?state=failed"/>
    <${Figure} label="Arrival p50, p95" value=${html`${duration(totals.arrival_p50_ms)}<span class="dim">, </span>${duration(totals.arrival_p95_ms)}`} sub="accept to delivered"/>
    <${Figure} label="Backlog" value=${`${count(backlog.pending)}${backlog.at_least ? '+' : ''}`} sub="deliveries pending" href="/deliveries?state=pending"/>
    <${Figure} label="Oldest due" value=${backlog.oldest_due_at ? html`<${Time} at=${backlog.oldest_due_at}/>` : 'none'} sub=${late ? 'due and not begun: paused, no client, or behind' : 'nothing is late'} bad=${late}/>
  </dl>`
}

function Charts({stats}) {
  const drawn = useMemo(() => {
    const of = name => stats.points.map(it => it[name])
    return {
      at: stats.points.map(it => Date.parse(it.at)),
      flow: [{label: 'accepted', values: of('accepted'), color: 'accent', fill: true}, {label: 'delivered', values: of('delivered'), color: 'good', dash: true}],
      speed: [{label: 'p50', values: of('arrival_p50_ms'), color: 'accent'}, {label: 'p95', values: of('arrival_p95_ms'), color: 'warn', dash: true}],
      faults: [{label: 'failed attempts', values: of('attempts_failed'), color: 'warn', fill: true}, {label: 'failed for good', values: of('failed'), color: 'bad', dash: true}],
    }
  }, [stats])
  const each = stats.step_seconds === 60 ? 'per minute' : `per ${duration(stats.step_seconds * 1000)}`
  return html`<div class="charts">
    <${Chart} title="Messages" summary=${`${each}: ${count(stats.totals.accepted)} accepted, ${count(stats.totals.delivered)} delivered`} at=${drawn.at} series=${drawn.flow}/>
    <${Chart} title="Arrival" summary=${`accept to delivered: p50 ${duration(stats.totals.arrival_p50_ms)}, p95 ${duration(stats.totals.arrival_p95_ms)}`} at=${drawn.at} series=${drawn.speed} format=${duration}/>
    <${Chart} title="Failures" summary=${`${each}: ${count(stats.totals.attempts_failed)} attempts, ${count(stats.totals.failed)} for good`} at=${drawn.at} series=${drawn.faults}/>
  </div>`
}

/** What happens to an endpoint next if nobody acts, and what helps. */
function Next({endpoint, health}) {
  const webhook = endpoint?.object === 'webhook' ? endpoint : null
  if (webhook?.status === 'paused') return 'Gets nothing until it is set to active. Then recover what was skipped'
  if (webhook?.pauses_at) return html`A failure <${Time} at=${webhook.pauses_at}/> or later pauses it. A delivered test prevents that`
  if (webhook?.failing_since) return html`Failing since <${Time} at=${webhook.failing_since}/>: retried on its schedule, not yet degraded`
  if (endpoint?.paused) return 'Its deliveries wait until it is resumed'
  const waits = health?.backlog.pending ?? 0
  if (waits > 0) return `${plural(waits, 'delivery', 'deliveries')}${health.backlog.at_least ? ' or more' : ''} pending: retried on schedule${webhook ? '' : '. A destination never pauses by itself'}`
  return 'Nothing is pending'
}

/** `known`: webhooks and destinations by id. */
function Where({health, known, sources}) {
  return html`<span class="mono">${known[health.endpoint_id]?.url ?? health.endpoint_id}</span>${health.source_id && html` <span class="dim">of ${sources[health.source_id]?.name ?? health.source_id}</span>`}`
}

const pageOfEndpoint = it => (it.kind === 'webhook' ? `/webhooks/${it.endpoint_id}` : `/sources/${it.source_id}`)

const item = (key, state, href, what, why) => html`<li key=${key}>${state}<span class="grow"><${Link} href=${href}>${what}<//> <span class="dim">${why}</span></span></li>`

function Attention({webhooks, endpoints, failed, known, sources}) {
  const sick = Object.values(webhooks).filter(it => it.status !== 'active')
  const failing = (endpoints ?? []).filter(it => it.kind === 'destination' && it.attempts > 0 && it.success_rate < FAILING_BELOW).slice(0, 5)
  if (sick.length + failing.length + failed.length === 0) return html`<p><${State} look="good" text="Nothing needs attention"/></p>`
  return html`<ul class="attention">
    ${sick.map(it => item(it.id, html`<${State} of=${it.status}/>`, `/webhooks/${it.id}`, html`<span class="mono">${it.url}</span>`, html`<${Next} endpoint=${it}/>`))}
    ${failing.map(it => item(it.endpoint_id, html`<${State} look="bad" text="failing"/>`, pageOfEndpoint(it), html`<${Where} health=${it} known=${known} sources=${sources}/>`,
      html`${percent(it.success_rate)} of ${plural(it.attempts, 'attempt')} delivered. <${Next} health=${it} endpoint=${known[it.endpoint_id]}/>`))}
    ${failed.map(it => item(it.id, html`<${State} of=${it.state}/>`, `/deliveries/${it.id}`, html`<span class="mono">${known[it.destination_id ?? it.webhook_id]?.url ?? it.recipient ?? it.destination_id ?? it.webhook_id}</span>`,
      html`${words(it.reason)}, ${it.attempts_used} of ${plural(it.attempts_max, 'attempt')} used · <${Time} at=${it.ended_at}/>`))}
  </ul>`
}

function Health({rows, known, sources}) {
  return html`<${Table} caption="Endpoints, worst first" rows=${rows.slice(0, 15)} rowKey=${it => it.endpoint_id} rowHref=${pageOfEndpoint}
    empty=${html`<p class="dim">No attempt was made in this span.</p>`} columns=${[
      {label: 'Endpoint', main: true, cell: it => html`<${Where} health=${it} known=${known} sources=${sources}/>`},
      {label: 'Delivered', class: 'num tight', cell: it => html`<${State} look=${it.success_rate === null ? 'none' : it.success_rate < FAILING_BELOW ? 'bad' : it.success_rate < 0.99 ? 'warn' : 'good'} text=${percent(it.success_rate)}/>`},
      {label: 'Attempts', class: 'num tight', cell: it => count(it.attempts)},
      {label: 'p50', class: 'num tight', cell: it => duration(it.duration_p50_ms)}, {label: 'p95', class: 'num tight', cell: it => duration(it.duration_p95_ms)},
      {label: 'What happens next', cell: it => html`<${Next} health=${it} endpoint=${known[it.endpoint_id]}/>`},
    ]}/>`
}

export default function Overview({query}) {
  const hours = SPANS.some(([value]) => value === query.hours) ? query.hours : '1'
  const stats = useGet('/stats', {hours}, {every: hours === '1' ? EVERY_MS : SLOW_MS})
  const endpoints = useGet('/stats/endpoints', {hours: 24}, {every: SLOW_MS})
  const hooks = useGet('/webhooks', {limit: 100}, {every: SLOW_MS})
  const since = useMemo(() => new Date(Date.now() - DAY_MS).toISOString(), [])
  const failed = useGet('/deliveries', {state: 'failed', since, limit: 5}, {every: SLOW_MS})
  const any = useGet('/requests', {limit: 1})
  const sources = useSources()
  const webhooks = useMemo(() => Object.fromEntries((hooks.data?.data ?? []).map(it => [it.id, it])), [hooks.data])
  const known = {...webhooks, ...useAllDestinations((endpoints.data?.data ?? []).map(it => it.source_id).filter(Boolean))}
  const blank = any.data?.data.length === 0 && Object.keys(sources).length === 0 && hooks.data?.data.length === 0
  const missing = stats.error?.status === 404
  return html`<${Page} title=${title} actions=${html`<span class="dim">read every ${(hours === '1' ? EVERY_MS : SLOW_MS) / 1000} s</span><${Choice} name="hours" label="Span" options=${SPANS}/>`}>
    ${blank && html`<${Empty} title="Nothing goes through here yet." text="Receive webhooks at a URL of your own, publish events to your customers' webhooks, or send email. To begin:"
      command=${['restante sources create shop', 'restante destinations create --source shop --url https://api.example.com/hooks', `restante send request shop --data '{"order":1042}'`]}/>`}
    ${missing ? html`<p class="note">This server keeps no statistics.</p>` : html`<${Fault} error=${stats.error} retry=${stats.reload}/>`}
    ${stats.data ? html`<${Numbers} stats=${stats.data}/>` : !stats.error && html`<${Loading} what="the numbers"/>`}
    <${Section} title="Needs attention"><${Fault} error=${hooks.error ?? failed.error} retry=${() => { hooks.reload(); failed.reload() }}/>
      ${hooks.data && failed.data ? html`<${Attention} webhooks=${webhooks} endpoints=${endpoints.data?.data} failed=${failed.data.data} known=${known} sources=${sources}/>` : !hooks.error && !failed.error && html`<${Loading} what="what needs attention"/>`}
      <p class="row"><${Link} href="/deliveries?state=failed">All failed deliveries<//><${Link} href="/requests?state=failed">Failed requests<//><${Link} href="/requests?state=none">Requests without destination<//></p><//>
    ${stats.data && html`<${Section} title="Over time"><${Charts} stats=${stats.data}/><//>`}
    ${endpoints.data && html`<${Section} title="Endpoints by health, last 24 h"><${Health} rows=${endpoints.data.data} known=${known} sources=${sources}/><//>`}
  <//>`
}
