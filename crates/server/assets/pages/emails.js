import {Empty, Filters, FilterSwitch, html, Page, State, Time, useGet, useRoute} from './all.js'
import {curl, Listed, shell, useList} from './act.js'

export const title = 'Emails'

export const addressText = ({email, name}) => (name ? `${name} <${email}>` : email)

/** Says when mail goes nowhere, or when the key sees only a part of it. */
export function CaptureBanner({server}) {
  if (!server) return null
  return html`
    ${server.mail_transport === 'capture' && html`<p class="note warn" role="note"><strong>Mail is captured: it is kept and shown here, and goes nowhere.</strong> To send it, set <code>RESTANTE_SMTP_URL</code> (a relay) or
      ${' '}<code>RESTANTE_SMTP=direct</code> and start the server again.</p>`}
    ${server.key?.mode === 'test' && html`<p class="note warn" role="note">This session's key is a test key: it sees emails of the test mode only, and those always go nowhere.</p>`}`
}

const STATUSES = ['scheduled', 'queued', 'sending', 'sent', 'partial', 'bounced', 'failed', 'cancelled'].map(it => [it, it])
const FILTERS = [
  {name: 'status', label: 'Status', type: 'choice', options: STATUSES},
  {name: 'from', label: 'From, the whole address', type: 'text'},
  {name: 'scheduled_from', label: 'Scheduled from', type: 'time'},
  {name: 'scheduled_to', label: 'Scheduled to', type: 'time'},
]

const commands = () => [
  shell('send email --from shop@example.com --to ada@example.net --subject Hello --text Hello'),
  curl('/emails', '{"from": "shop@example.com", "to": "ada@example.net", "subject": "Hello", "text": "Hello"}', '-H "Idempotency-Key: welcome:ada" '),
]

function To({email}) {
  const [first] = email.recipients
  return html`<span class="wrap">${first ? addressText(first) : '–'}</span>${email.recipients.length > 1 && html` <span class="dim">and ${email.recipients.length - 1} more</span>`}`
}

const columns = [
  {label: 'Status', cell: it => html`<${State} of=${it.status}/>`},
  {label: 'Subject', main: true, cell: it => html`<span class="wrap">${it.subject || '(no subject)'}</span>`},
  {label: 'To', cell: it => html`<${To} email=${it}/>`},
  {label: 'From', cell: it => html`<span class="wrap">${it.from.email}</span>`},
  {label: 'Way', cell: it => html`${it.transport === 'capture' ? html`<${State} look="off" text="captured" title="It was kept here and went nowhere"/>` : it.transport}${it.mode === 'test' && ' test'}`},
  {label: 'Trouble', cell: it => it.last_error ?? html`<span class="dim">–</span>`},
  {label: 'When', class: 'tight', cell: it => (it.status === 'scheduled' ? html`due <${Time} at=${it.scheduled_at}/>` : html`<${Time} at=${it.created_at}/>`)},
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
