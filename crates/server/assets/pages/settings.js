import {api, Copy, count, Facts, html, Link, navigate, Page, Section, session, signOut, Time, toast, useGet} from './all.js'
import {Act, Awaited} from './act.js'
import {CaptureBanner} from './emails.js'
import {Fields} from './fields.js'

export const title = 'Settings'

const FIELDS = [
  {name: 'name', label: 'Name'},
  {name: 'owners', label: 'Owners', kind: 'lines', example: 'ada@example.com', hint: 'Mail addresses, one on a line. They are told when a webhook keeps failing or is paused'},
]
const RETENTION = {name: 'retention_days_max', label: 'Days that its sources may keep requests', kind: 'number', hint: '1 to 365; empty: 365'}

function Workspace({admin}) {
  const got = useGet('/v1/workspace')
  const {data, reload} = got
  if (!data) return html`<${Awaited} of=${got} what="the workspace"/>`
  const save = async values => {
    await api.patch('/v1/workspace', values)
    toast('The workspace is changed')
    reload()
  }
  return html`<${Facts} of=${[
      ['Id', html`<code class="wrap">${data.id}</code> <${Copy} text=${data.id} class="small"/>`],
      ['Credits', html`<${Link} href="/credits">${data.credits === null ? 'not counted' : count(data.credits)}<//>`],
      ['Retention', admin ? null : `at most ${data.retention_days_max} days; an administrator sets it`],
      ['Made', html`<${Time} exactly at=${data.created_at}/>`],
    ]}/>
    ${data.owners.length === 0 && html`<p class="note warn">Nobody is told by mail when a webhook keeps failing: there are no owners.</p>`}
    <${Fields} key=${JSON.stringify(data)} fields=${admin ? [...FIELDS, RETENTION] : FIELDS} of=${data} submit="Save" run=${save}/>`
}

const PRIVATE = {none: 'refused', some: 'some are allowed', all: 'allowed'}
const MAIL = {relay: 'sent through a relay', direct: 'sent to the recipients\' mail servers', capture: 'captured: kept and shown, sent nowhere'}

function Server({server}) {
  const {data} = server
  if (!data) return html`<${Awaited} of=${server} what="the server"/>`
  return html`<${Facts} of=${[
    ['Version', data.version], ['Address', html`<code class="wrap">${location.origin}</code>`],
    ['Mail', MAIL[data.mail_transport] ?? data.mail_transport],
    ['Targets in private networks', PRIVATE[data.private_targets] ?? data.private_targets],
    ['Targets in plain http', data.http_targets ? 'allowed' : 'refused'],
    ['API', html`<a href="/v1/openapi.json" target="_blank" rel="noopener noreferrer">openapi.json</a>`],
  ]}/>`
}

export default function Settings() {
  const server = useGet('/v1/server')
  const signed = session.use()
  const key = server.data?.key
  const leave = async () => {
    await signOut()
    navigate('/sign-in')
  }
  return html`<${Page} title=${title}><${CaptureBanner} server=${server.data}/>
    <${Section} title="Workspace"><${Workspace} admin=${!key || key.scopes.includes('admin')}/><//>
    <${Section} title="Server"><${Server} server=${server}/><//>
    <${Section} title="This session" actions=${html`<${Act} label="Sign out" run=${leave}/>`}><${Facts} of=${[
      ['Key', key && html`<span class="wrap">${key.name}</span> <code class="wrap">${key.id}</code>`],
      ['Mode', key?.mode], ['Scopes', key && html`<code class="wrap">${key.scopes.join(', ')}</code>`],
      ['Ends', signed?.expires_at && html`<${Time} exactly at=${signed.expires_at}/>`],
    ]}/><//>
  <//>`
}
