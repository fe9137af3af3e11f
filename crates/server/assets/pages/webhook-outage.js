// The way out of an outage: test the endpoint, set it active, send again what it missed.
import {api, Fault, fromField, html, plural, Section, State, Time, toField, useRoute, useState} from './all.js'
import {Act, Listed, textOf, timeOf, useList} from './act.js'
import {Test} from './webhook-test.js'

const HOUR_MS = 3_600_000
const ago = hours => new Date(Date.now() - hours * HOUR_MS).toISOString()

export function Outage({webhook, path, onChange}) {
  const [test, setTest] = useState(null)
  // A delivered test ends the run and with it the time it began: it is kept for step 3.
  const [began] = useState(webhook.failing_since)
  const paused = webhook.status === 'paused'
  const tested = came => {
    setTest(came)
    onChange()
  }
  const activate = async () => {
    await api.patch(path, {status: 'active'})
    onChange()
  }
  return html`<ol class="steps">
    <li><h2>Test the endpoint ${test ? html`<${State} of=${test.status}/>` : html`<${State} look="wait" text="not tested here yet"/>`}</h2>
      <p>While the receiver does not answer a test with a 2xx, the steps below only fail again.</p>
      <${Test} webhook=${webhook} path=${path} onDone=${tested}/></li>
    <li><h2>Set it active ${paused ? html`<${State} of="paused"/>` : html`<${State} look="good" text=${webhook.status === 'degraded' ? 'degraded, receives everything' : 'active'}/>`}</h2>
      <p>${paused ? 'It receives nothing until then.' : 'It receives events: nothing to do.'}</p>
      ${paused && html`<${Act} label="Set active" primary=${test?.status === 'delivered'} run=${activate} done="The webhook is active"/>`}</li>
    <li><h2>Replay or recover ${paused ? html`<${State} look="off" text="needs an active webhook"/>` : html`<${State} look="wait" text="choose a window"/>`}</h2>
      <${Again} path=${path} began=${began} paused=${paused}/></li>
  </ol>`
}

function Window({value, onChange, began}) {
  const choices = [
    ...(began ? [['began', 'since it began to fail']] : []), ['1', 'the last hour'], ['24', 'the last 24 hours'], ['72', 'the last 3 days'], ['own', 'from … to …'],
  ]
  const put = change => onChange({...value, ...change})
  return html`<div class="filters"><label><span>Window</span><select onChange=${event => put({span: event.target.value})}>
      ${choices.map(([span, text]) => html`<option key=${span} value=${span} selected=${span === value.span}>${text}</option>`)}</select></label>
    ${value.span === 'own' && ['since', 'until'].map(name => html`<label key=${name}><span>${name}</span>
      <input type="datetime-local" step="1" value=${toField(value[name])} onChange=${event => put({[name]: fromField(event.target.value)})}/></label>`)}</div>`
}

function windowOf({span, since, until}, began) {
  if (span === 'own') return {since, until}
  return {since: span === 'began' ? began : ago(Number(span)), until: null}
}

const QUOTA = 'Each event gets one attempt, with the same webhook-id. It costs nothing; a workspace has 20 replays a day.'
const RECOVERY = 'A recovery delivers them on the webhook\'s schedule. It costs nothing.'

/** Counts first, asks, begins, and shows how far it is. */
function Again({path, began, paused}) {
  const [choice, setChoice] = useState({span: began ? 'began' : '24', since: ago(24), until: null})
  const [counts, setCounts] = useState(null)
  const [error, setError] = useState(null)
  const [runs, setRuns] = useState(0)
  const preview = async () => {
    setError(null)
    const span = windowOf(choice, began)
    try {
      const [failed, skipped] = await Promise.all([
        api.post(`${path}/replay`, span, {dry_run: true}),
        api.get(`${path}/deliveries`, {state: 'skipped', ...span, limit: 1, include_total: true}),
      ])
      setCounts({span, failed: failed.events, skipped: skipped.total ?? (skipped.data.length > 0 ? null : 0)})
    } catch (caught) { setError(caught) }
  }
  const begin = kind => async () => {
    await api.post(`${path}/${kind}`, counts.span)
    setCounts(null)
    setRuns(runs + 1)
  }
  const failed = plural(counts?.failed, 'event')
  const skipped = counts?.skipped === null ? 'many events' : plural(counts?.skipped, 'event')
  return html`<${Window} value=${choice} began=${began} onChange=${next => { setChoice(next); setCounts(null) }}/>
    <${Act} label="Count what that is" run=${preview}/>
    <${Fault} error=${error}/>
    ${counts && html`<div class="card" role="status"><p>Failed in the window, and never delivered: <strong>${failed}</strong>. ${QUOTA}</p>
      ${counts.failed !== 0 && html`<${Act} label=${`Replay ${failed}`} primary disabled=${paused} ask=${{title: `Replay ${failed}?`, body: QUOTA}} run=${begin('replay')} done="The replay has begun"/>`}
      <p>Skipped, because the webhook was paused: <strong>${skipped}</strong>. ${RECOVERY}</p>
      ${counts.skipped !== 0 && html`<${Act} label=${`Recover ${skipped}`} primary disabled=${paused} ask=${{title: `Recover ${skipped}?`, body: RECOVERY}} run=${begin('recover')} done="The recovery has begun"/>`}
      ${paused && html`<p>Set the webhook active first: while it is paused nothing is delivered.</p>`}</div>`}
    <${Replays} key=${runs} path=${path}/>`
}

const progress = it => `${it.delivered + it.failed + it.skipped} of ${it.total}`

function Replays({path}) {
  const {query} = useRoute()
  const list = useList(`${path}/replays`, null, {every: query.cursor ? 0 : 2000})
  const columns = [
    timeOf('Asked for', 'requested_at'),
    textOf('Kind', 'kind'),
    {label: 'State', cell: it => html`<${State} of=${it.state} title=${it.state === 'ended' ? 'The webhook was paused or deleted' : null}/>`},
    {label: 'Progress', cell: it => html`<progress max=${Math.max(it.total, 1)} value=${it.total === 0 ? 1 : it.delivered + it.failed + it.skipped} aria-label=${progress(it)}/> ${progress(it)}`},
    ...['delivered', 'failed', 'skipped'].map(it => textOf(it, it, {class: 'num'})),
    {label: 'Window', cell: it => html`<${Time} at=${it.since}/> to <${Time} at=${it.until}/>`},
  ]
  return html`<${Section} title="Replays and recoveries"><${Listed} list=${list} name="replays" columns=${columns} none="None was asked for yet."/><//>`
}
