import {api, duration, Facts, html, State, Time, useState} from './all.js'
import {Fields} from './fields.js'

function said({status, response_status_code: code}) {
  if (status === 'delivered') return 'The receiver took it.'
  return code ? `The receiver answered ${code}, which is no 2xx.` : 'Nothing came back.'
}

function Result({result}) {
  return html`<div class="card" role="status"><p><${State} of=${result.status}/> <strong>${said(result)}</strong> <${Time} at=${result.at}/></p>
    <${Facts} of=${[
      ['Status code', result.response_status_code ?? 'none'],
      ['Took', duration(result.response_duration_ms)],
      ['Error', result.error],
    ]}/>
    ${result.response_body && html`<h3>Body that came back</h3><pre class="body">${result.response_body}</pre>`}
    <details><summary>Body that was sent</summary><pre class="body">${JSON.stringify(result.payload, null, 2)}</pre></details></div>`
}

/** `onDone` is told what came of each test. */
export function Test({webhook, path, onDone}) {
  const [result, setResult] = useState(null)
  const type = webhook.events.find(it => !it.includes('*')) ?? 'webhook.test'
  const run = async values => {
    const came = {...await api.post(`${path}/test`, values), at: new Date().toISOString()}
    setResult(came)
    onDone(came)
  }
  return html`<p>Sends one signed event and waits for the answer, at most 10 s. It is not in the attempts log.
      ${webhook.status === 'paused' ? ' The webhook stays paused.' : ' A delivered test ends a failing run.'}</p>
    <${Fields} fields=${[{name: 'event_type', label: 'Event type', example: type, hint: `${type} unless given`}]} submit="Send a test" run=${run}/>
    ${result && html`<${Result} result=${result}/>`}`
}
