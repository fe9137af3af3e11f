import {api, Empty, html, Page, Section, State, Time, useGet, useState} from './all.js'
import {Act, Listed, Once, shell, timeOf, useList} from './act.js'
import {Fields} from './fields.js'

export const title = 'Keys'

const SCOPES = ['sources', 'requests', 'deliveries', 'webhooks', 'templates', 'domains', 'suppressions', 'workspace'].flatMap(it => [`${it}:read`, `${it}:write`])
  .concat('events:publish', 'events:read', 'emails:send', 'emails:read', 'notices:read', 'keys:manage', 'admin')

const FIELDS = [
  {name: 'name', label: 'Name', example: 'worker', hint: 'Who holds it'},
  {name: 'scopes', label: 'What its holder may do', kind: 'checks', options: SCOPES, always: true, hint: 'As little as it needs. admin may do everything, in other workspaces too'},
  {name: 'mode', label: 'Mode', kind: 'choice', options: [['live', 'live'], ['test', 'test: its emails go nowhere']], show: value => value ?? 'live'},
]

const warn = (key, own) => (key.id === own ? ' This session is signed in with this key: it ends too.' : '')
const rotate = (key, own) => ({title: `Make a new token for ${key.name}?`, body: `The old one stops working at once. The new one is shown once.${warn(key, own)}`})
const revoke = (key, own) => ({title: `Revoke ${key.name}?`, body: `It stops working at once and stays listed.${warn(key, own)}`})
const remove = (key, own) => ({title: `Delete ${key.name}?`, body: `It stops working at once and is not listed any more.${warn(key, own)}`})

export default function Keys() {
  const list = useList('/v1/keys')
  const server = useGet('/v1/server')
  const own = server.data?.key?.id
  const [asks, setAsks] = useState(false)
  const [shown, setShown] = useState(null)
  const show = key => {
    setShown(key)
    setAsks(false)
    list.reload()
  }
  const call = (key, verb) => api.post(`/v1/keys/${key.id}/${verb}`)
  const columns = [
    {label: 'State', cell: it => (it.revoked_at ? html`<${State} of="revoked"/>` : html`<${State} of="active"/>`)},
    {label: 'Name', cell: it => html`<span class="wrap">${it.name}</span>${it.id === own && html` <span class="tag">this session</span>`}`},
    {label: 'Token', cell: it => html`<code>rst_${it.mode}_…${it.last4}</code>`},
    {label: 'Scopes', cell: it => html`<code class="wrap">${it.scopes.join(', ')}</code>`},
    {label: 'Last used', cell: it => (it.last_used_at ? html`<${Time} at=${it.last_used_at}/>` : html`<span class="dim">never</span>`)},
    timeOf('Made', 'created_at'),
    {label: 'Act', class: 'acts', cell: it => html`<span class="row">
      ${!it.revoked_at && html`<${Act} small label="Rotate" ask=${rotate(it, own)} run=${async () => show(await call(it, 'rotate'))}/>
        <${Act} small label="Revoke" danger ask=${revoke(it, own)} run=${async () => { await call(it, 'revoke'); list.reload() }} done="The key is revoked"/>`}
      <${Act} small label="Delete" danger ask=${remove(it, own)} run=${async () => { await api.del(`/v1/keys/${it.id}`); list.reload() }} done="The key is deleted"/></span>`},
  ]
  return html`<${Page} title=${title} sub="Who may call, and what they may do."
      actions=${html`<button type="button" class="primary" aria-expanded=${asks} onClick=${() => setAsks(!asks)}>New key</button>`}>
    ${shown && html`<${Once} what=${`The token of ${shown.name}`} secret=${shown.token} onClose=${() => setShown(null)}>Only its hash is stored here.<//>`}
    ${asks && html`<${Section} title="New key"><${Fields} fields=${FIELDS} submit="Create the key" onCancel=${() => setAsks(false)}
      run=${async values => show(await api.post('/v1/keys', values))}/><//>`}
    <${Listed} list=${list} name="keys" columns=${columns}
      empty=${html`<${Empty} title="No keys." command=${shell('keys create worker --scope events:publish')}/>`}/>
  <//>`
}
