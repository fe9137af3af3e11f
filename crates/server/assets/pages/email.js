import {api, Copy, Dialog, Facts, Fault, html, Page, State, Time, toast, useGet, useState} from './all.js'
import {Act, Awaited, Choice} from './act.js'
import {addressText, CaptureBanner} from './emails.js'
import {Attachments, Events, Headers, Html, Source, Text} from './email-content.js'
import {Recipients} from './email-recipients.js'
import {Fields} from './fields.js'

export const title = 'Email'

const TABS = [['recipients', 'Recipients'], ['html', 'HTML'], ['text', 'Text'], ['headers', 'Headers'], ['attachments', 'Attachments'], ['source', 'Source'], ['events', 'Events']]

const ENDS = {
  sent: 'Every recipient\'s mail server took it.',
  partial: 'Some recipients have it and others do not: see below.',
  bounced: 'Mail servers refused it for good. Hard bounces are suppressed from now on.',
  failed: 'No recipient has it, and nothing more is tried.',
  cancelled: 'It was cancelled: nothing was sent.',
}

function now({status, transport, scheduled_at: due}) {
  if (status === 'scheduled') return html`Goes out <${Time} exactly at=${due}/>.`
  if (status === 'sent' && transport === 'capture') return 'Captured: it was kept here and went nowhere.'
  return ENDS[status] ?? 'It is on its way. Each recipient below says what comes next, when and why.'
}

const list = (email, kind) => email.recipients.filter(it => it.kind === kind).map(addressText).join(', ')
const pairs = of => Object.entries(of ?? {}).map(([name, value]) => `${name}=${value}`).join(', ')

const CANCEL = {title: 'Cancel this email?', body: 'Nothing is sent to any of its recipients. It cannot be taken up again.'}

export default function Email({id, query}) {
  const path = `/v1/emails/${encodeURIComponent(id)}`
  const got = useGet(path, null, {every: 4000})
  const {data: email, error, reload} = got
  const server = useGet('/v1/server')
  const [moves, setMoves] = useState(false)
  if (!email) return html`<${Page} title=${title}><${Awaited} of=${got} what=${`the email ${id}`}/><//>`
  const reschedule = async values => {
    await api.patch(path, values)
    setMoves(false)
    toast('The email has another time')
    reload()
  }
  const cancel = async () => {
    await api.post(`${path}/cancel`)
    reload()
  }
  const actions = html`
    ${email.status === 'scheduled' && html`<button type="button" onClick=${() => setMoves(true)}>Reschedule</button>`}
    ${['scheduled', 'queued'].includes(email.status) && html`<${Act} label="Cancel the email" danger ask=${CANCEL} run=${cancel} done="The email is cancelled"/>`}`
  const tab = TABS.some(([value]) => value === query.tab) ? query.tab : 'recipients'
  return html`<${Page} title=${title} heading=${email.subject || '(no subject)'} actions=${actions}
      sub=${html`<code>${email.id}</code> <${Copy} text=${email.id} class="small" label="Copy id"/>`}>
    ${email.transport === 'capture' && html`<${CaptureBanner} server=${server.data}/>`}
    <${Fault} error=${error} retry=${reload}/>
    ${moves && html`<${Dialog} title="Give it another time" onClose=${() => setMoves(false)}><div>
      <${Fields} of=${email} submit="Reschedule" run=${reschedule} onCancel=${() => setMoves(false)}
        fields=${[{name: 'scheduled_at', label: 'Not before', kind: 'time', always: true, hint: 'At most 30 days ahead; at once if it is past'}]}/></div><//>`}
    <section class="card"><p><${State} of=${email.status}/> <strong>${now(email)}</strong>${email.last_error && html` Last trouble: ${email.last_error}`}</p>
      <${Facts} of=${[
        ['From', addressText(email.from)], ['To', list(email, 'to')], ['Cc', list(email, 'cc')], ['Bcc', list(email, 'bcc')],
        ['Accepted', html`<${Time} exactly at=${email.created_at}/>`],
        [email.transport === 'capture' ? 'Captured' : 'Last taken by a mail server', email.sent_at && html`<${Time} exactly at=${email.sent_at}/>`],
        ['Can be cancelled until', email.cancellable_until && html`<${Time} exactly at=${email.cancellable_until}/>`],
        ['Way', `${email.transport}${email.mode === 'test' ? ', test mode' : ''}`],
        ['Message-ID', email.message_id && html`<code class="wrap">${email.message_id}</code>`],
        ['Tags', pairs(email.tags)],
        ['Metadata', email.metadata && html`<code class="wrap">${JSON.stringify(email.metadata)}</code>`],
      ]}/></section>
    <${Choice} name="tab" label="Parts of this email" options=${TABS}/>
    ${tab === 'recipients' && html`<${Recipients} email=${email}/>`}
    ${tab === 'events' ? html`<${Events} path=${path}/>` : tab !== 'recipients' && html`<${Content} path=${path} tab=${tab} email=${email}/>`}
  <//>`
}

const SHOWS = {html: Html, text: Text, headers: Headers, attachments: Attachments, source: Source}

function Content({path, tab, email}) {
  const got = useGet(`${path}/content`)
  const {data} = got
  if (got.error?.status === 404) return html`<p class="dim">This server does not show what is in an email, or it has erased it.</p>`
  if (!data) return html`<${Awaited} of=${got} what=${`what is in ${email.id}`}/>`
  const Shown = SHOWS[tab]
  return Shown ? html`<${Shown} content=${data} path=${path} email=${email}/>` : null
}
