import {api, count, Fault, html, Id, Loading, Page, pageFor, pageOf, Pager, Section, Table, useGet, useRoute} from './all.js'
import {Act, textOf, timeOf} from './act.js'
import {Fields} from './fields.js'

export const title = 'Credits'

/** What was paid for; a grant's note is anybody's text, and never a link. */
const ref = it => (it.reason !== 'grant' && it.ref && pageFor(it.ref) ? html`<${Id} of=${it.ref}/>` : html`<span class="wrap">${it.ref ?? '–'}</span>`)

const columns = [
  timeOf('When', 'at', {exactly: true}),
  {label: 'Change', class: 'num', cell: it => `${it.delta > 0 ? '+' : ''}${count(it.delta)}`},
  textOf('For', 'reason'),
  {label: 'What', cell: ref},
]

const FIELDS = [
  {name: 'delta', label: 'Credits to add', kind: 'number', example: '1000', hint: 'A negative number takes away. From then on there is a balance'},
  {name: 'note', label: 'Note', hint: 'Shown in the ledger'},
]
const UNCOUNT = {title: 'Stop counting?', body: 'From then on nothing costs credits. The balance is forgotten.'}

export default function Credits() {
  const {query} = useRoute()
  const {data, error, reload} = useGet('/v1/workspace/credits', pageOf(query), {every: 10_000})
  const server = useGet('/v1/server')
  const {key, workspace_id: id} = server.data ?? {}
  const grant = async values => {
    await api.post(`/v1/workspaces/${id}/credits`, values)
    reload()
  }
  return html`<${Page} title=${title} sub="Accepting a request, a manual retry and a replay of a request cost one credit each. Automatic attempts, events and emails cost nothing.">
    <${Fault} error=${error} retry=${reload}/>
    ${!data ? !error && html`<${Loading} what="credits"/>` : html`
      <dl class="numbers"><div class=${`number ${data.balance === 0 ? 'bad' : ''}`}><dt>Balance</dt><dd>${data.balance === null ? 'not counted' : count(data.balance)}</dd></div></dl>
      ${data.balance !== null && data.balance <= 0 && html`<p class="note bad">The credits are used up: sources answer 402 and store nothing. What is pending goes on.</p>`}
      <${Table} caption="What changed the balance, newest first" columns=${columns} rows=${data.ledger.data} empty=${html`<p class="dim">Nothing was charged yet.</p>`}/>
      <${Pager} page=${data.ledger}/>
      ${key?.scopes.includes('admin') && html`<${Section} title="Grant" actions=${data.balance !== null && html`<${Act} label="Stop counting" danger ask=${UNCOUNT} run=${() => grant({balance: null})}/>`}>
        <${Fields} key=${data.ledger.data[0]?.id} fields=${FIELDS} submit="Grant" run=${grant}/><//>`}`}
  <//>`
}
