// Making and changing a destination.
import {html} from '../lib/dom.js'
import {api} from '../lib/api.js'
import {Dialog} from './dialog.js'
import {Area, Check, Form, Select, Text, useForm} from './form.js'

const number = text => (String(text).trim() === '' ? null : Number(text))

/** `Name: value` lines; a name that is set already keeps its value when the line has none. */
function headers(text, old) {
  const all = {}
  for (const line of text.split('\n').filter(it => it.trim() !== '')) {
    const at = line.indexOf(':')
    const name = (at < 0 ? line : line.slice(0, at)).trim()
    const value = at < 0 ? '' : line.slice(at + 1).trim()
    const known = Object.keys(old).some(it => it.toLowerCase() === name.toLowerCase())
    all[name] = value === '' && known ? null : value
  }
  return all
}

function scheduleOf({kind, attempts, waits, jitter}) {
  if (kind === 'quadratic') return {kind, attempts: number(attempts)}
  if (kind === 'standard') return {kind}
  return {kind, waits_seconds: waits.split(/[\s,]+/).filter(Boolean).map(Number), jitter: number(jitter) ?? 0}
}

export function DestinationDialog({source, destination: old, onDone, onClose}) {
  const own = typeof old?.idempotency_header === 'string' ? old.idempotency_header : ''
  const form = useForm({
    to: old?.kind ?? 'http', url: old?.url ?? '', kind: old?.schedule.kind ?? 'quadratic', attempts: String(old?.schedule.attempts ?? 5),
    waits: (old?.schedule.waits_seconds ?? [60, 300, 1800]).join(', '), jitter: String(old?.schedule.jitter ?? 0.1),
    key: old ? (own ? 'own' : String(old.idempotency_header)) : 'false', own,
    headers: Object.keys(old?.headers ?? {}).map(name => `${name}:`).join('\n'),
    max_in_flight: String(old?.max_in_flight ?? 64), rate_per_second: String(old?.rate_per_second ?? ''), timeout_seconds: String(old?.timeout_seconds ?? 30), paused: old?.paused ?? false,
  }, async values => {
    const body = {
      url: values.url.trim(), schedule: scheduleOf(values), idempotency_header: values.key === 'own' ? values.own.trim() : values.key === 'true',
      headers: headers(values.headers, old?.headers ?? {}), max_in_flight: number(values.max_in_flight), rate_per_second: number(values.rate_per_second),
      timeout_seconds: number(values.timeout_seconds), paused: values.paused,
    }
    onDone(old ? await api.patch(`/sources/${source.id}/destinations/${old.id}`, body)
      : await api.post(`/sources/${source.id}/destinations`, {kind: values.to, ...body}))
  })
  const {values} = form
  return html`<${Dialog} wide title=${old ? 'Change the destination' : `New destination of ${source.name}`} onClose=${onClose}><div>
    <${Form} form=${form} submit=${old ? 'Save' : 'Make the destination'} onCancel=${onClose}>
      ${!old && html`<${Select} form=${form} name="to" label="How it is reached" options=${[['http', 'http: the server calls a URL'], ['cli', 'cli: a connected command-line client calls it']]}/>`}
      <${Text} form=${form} name="url" label="URL" autofocus placeholder="https://api.example.com/hooks"
        hint=${values.to === 'cli' ? html`Dialled by the client; restante listen's argument replaces it: <code>restante listen 3000 --source ${source.name}</code>` : 'The path and query that follow the token are added to it.'}/>
      <div class="two"><${Select} form=${form} name="kind" label="Schedule" options=${[['quadratic', 'quadratic: n² minutes before attempt n'], ['standard', 'standard: 8 attempts in 27 h'], ['custom', 'custom: your waits']]}/>
        ${values.kind === 'quadratic' && html`<${Text} form=${form} name="attempts" label="Attempts (1 to 10)" inputmode="numeric"/>`}
        ${values.kind === 'custom' && html`<${Text} form=${form} name="jitter" label="Jitter (0 to 0.5)" inputmode="decimal"/>`}</div>
      ${values.kind === 'custom' && html`<${Text} form=${form} name="waits" label="Waits between attempts, in seconds" hint="One attempt more than waits. A planned attempt keeps its time; the next failure uses what is set here."/>`}
      <div class="two"><${Select} form=${form} name="key" label="Idempotency header" options=${[['false', 'none'], ['true', 'X-Adal-Idempotency'], ['own', 'a header of yours']]}/>
        ${values.key === 'own' && html`<${Text} form=${form} name="own" label="Its name" placeholder="Idempotency-Key"/>`}</div>
      <${Area} form=${form} name="headers" label="Static headers" rows="3" placeholder="X-Team: payments" hint="One a line. Values are never shown again: a name alone keeps the value that is set."/>
      <div class="two"><${Text} form=${form} name="max_in_flight" label="Attempts at the same time" inputmode="numeric"/><${Text} form=${form} name="rate_per_second" label="Attempts per second" placeholder="no limit" inputmode="decimal"/></div>
      <${Text} form=${form} name="timeout_seconds" label="Timeout in seconds (1 to 60)" inputmode="numeric"/>
      <${Check} form=${form} name="paused" label="Paused: deliveries wait, and use no attempt"/><//></div><//>`
}
