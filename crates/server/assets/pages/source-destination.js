// Making and changing a destination.
import {api, Dialog, html} from './all.js'
import {Fields} from './fields.js'
import {WEBHOOK_FIELDS} from './webhook-fields.js'

const HEADER = 'X-Adal-Idempotency'
const shared = Object.fromEntries(WEBHOOK_FIELDS.map(it => [it.name, it]))

const KIND = {name: 'kind', label: 'How it is reached', kind: 'choice', always: true, options: [['http', 'http: the server calls its URL'], ['cli', 'cli: a connected command-line client calls it']]}
const FIELDS = [
  {...shared.url, example: 'https://api.example.com/hooks', hint: 'Path and query that follow the token are added. http: https and public, unless the server allows more. cli: dialled by the client; the argument of restante listen replaces it'},
  {...shared.schedule, example: 'quadratic:5', hint: 'quadratic:5 (n² minutes before attempt n), standard (8 attempts in about 27 h), or the waits in seconds: 5,300,1800 jitter 0.2'},
  {name: 'idempotency_header', label: 'Header that carries the request\'s key', show: set => (set === true ? HEADER : set || ''), read: text => (text.trim() === HEADER ? true : text.trim() || false), hint: `${HEADER}, or a name of yours; empty: none`},
  shared.headers, shared.max_in_flight, shared.rate_per_second, {...shared.timeout_seconds, example: '30'},
  {name: 'paused', label: 'Deliveries', kind: 'choice', show: String, read: text => text === 'true', options: [['false', 'go out'], ['true', 'wait until it is resumed, and use no attempt']]},
]

export function DestinationDialog({source, destination, onDone, onClose}) {
  const path = `/sources/${source.id}/destinations`
  return html`<${Dialog} wide title=${destination ? 'Change the destination' : `New destination of ${source.name}`} onClose=${onClose}><div>
    ${destination ? html`<${Fields} fields=${FIELDS} of=${destination} submit="Save" onCancel=${onClose} run=${async changed => onDone(await api.patch(`${path}/${destination.id}`, changed))}/>`
      : html`<${Fields} fields=${[KIND, ...FIELDS]} of=${{kind: 'http', paused: false}} submit="Make the destination" onCancel=${onClose} run=${async values => onDone(await api.post(path, values))}/>`}
  </div><//>`
}
