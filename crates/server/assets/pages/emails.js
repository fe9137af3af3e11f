import {useGet} from '../lib/api.js'
import {html} from '../lib/dom.js'
import {useRoute} from '../lib/router.js'
import {Time} from '../lib/time.js'
import {Empty} from '../parts/empty.js'
import {Filters, FilterSwitch} from '../parts/filters.js'
import {Page} from '../parts/page.js'
import {State} from '../parts/state.js'
import {Listed, useList} from './act.js'
import {addressText, CaptureBanner} from './email-parts.js'

export const title = 'Emails'

const STATUSES = ['scheduled', 'queued', 'sending', 'sent', 'partial', 'bounced', 'failed', 'cancelled'].map(it => [it, it])
const FILTERS = [
  {name: 'status', label: 'Status', type: 'choice', options: STATUSES},
  {name: 'from', label: 'From, the whole address', type: 'text'},
  {name: 'scheduled_from', label: 'Scheduled from', type: 'time'},
  {name: 'scheduled_to', label: 'Scheduled to', type: 'time'},
]

const commands = () => [
  `restante send email --from shop@example.com --to ada@example.net --subject Hello --text Hello --server ${location.origin}`,
  `curl ${location.origin}/v1/emails -H "Authorization: Bearer $RESTANTE_API_KEY" -H 'Content-Type: application/json' \\
  -H "Idempotency-Key: welcome:ada" -d '{"from": "shop@example.com", "to": "ada@example.net", "subject": "Hello", "text": "Hello"}'`,
]

function To({email}) {
  const [first] = email.recipients
  return html`<span class="wrap">${first ? addressText(first) : '–'}</span>${email.recipients.length > 1 && html` <span class="dim">and ${email.recipients.length - 1} more</span>`}`
}

const columns = [
  {label: 'Status', cell: it => html`<${State} of=${it.status}/>`},
  {label: 'Subject', main: true, class: 'grow', cell: it => html`<span class="wrap">${it.subject || '(no subject)'}</span>`},
  {label: 'To', cell: it => html`<${To} email=${it}/>`},
  {label: 'From', cell: it => html`<span class="wrap">${it.from.email}</span>`},
  {label: 'Way', cell: it => html`${it.transport === 'capture' ? html`<${State} look="off" text="captured" title="It was kept here and went nowhere"/>` : it.transport}${it.mode === 'test' && ' test'}`},
  {label: 'Trouble', cell: it => it.last_error ?? html`<span class="dim">–</span>`},
  {label: 'When', cell: it => (it.status === 'scheduled' ? html`due <${Time} at=${it.scheduled_at}/>` : html`<${Time} at=${it.created_at}/>`)},
]

export default function Emails() {
  const {query} = useRoute()
  const server = useGet('/v1/server')
  const {status, from, scheduled_from, scheduled_to} = query
  const list = useList('/v1/emails', {status, from, scheduled_from, scheduled_to}, {every: 5000})
  const filtered = status || from || scheduled_from || scheduled_to
  return html`<${Page} title=${title} sub="What was sent to mailboxes, and what became of it for each recipient.">
    <${CaptureBanner} server=${server.data}/>
    <${Filters} fields=${FILTERS}><${FilterSwitch} name="status" value="failed,bounced,partial" label="In trouble only"/><//>
    <${Listed} list=${list} name="emails" columns=${columns} rowHref=${it => `/emails/${it.id}`} none="No emails match these filters."
      empty=${!filtered && html`<${Empty} title="No emails yet." text="Send one. With the same Idempotency-Key, the same call again sends nothing more." command=${commands()}/>`}/>
  <//>`
}
