import {api, Copy, Empty, Fault, html, Loading, Page, Pager, State, Table, Time, toast, useState} from './all.js'
import {Act, shell, useList} from './act.js'
import {Fields} from './fields.js'

export const title = 'Domains'

const DELETE = name => ({title: `Delete ${name}?`, body: 'Its key is gone for good, and mail from it is not signed any more. A new one needs new records.'})

const PURPOSES = {dkim: 'needed', spf: 'advice', dmarc: 'advice'}

const columns = [
  {label: 'Purpose', cell: it => html`${it.purpose} <span class="dim">${PURPOSES[it.purpose]}</span>`},
  {label: 'State', cell: it => html`<${State} of=${it.status}/>`},
  {label: 'Type', cell: it => html`<code>${it.type}${it.priority === null ? '' : ` ${it.priority}`}</code>`},
  {label: 'Name', class: 'half', cell: it => html`<code class="wrap">${it.name}</code> <${Copy} text=${it.name} class="small"/>`},
  {label: 'Value', cell: it => html`<code class="wrap">${it.value}</code> <${Copy} text=${it.value} class="small"/>`},
]

/** `fresh`: the answer of a verification, which alone knows of the advised records. */
function Domain({domain: listed, onChange}) {
  const [fresh, setFresh] = useState(null)
  const domain = fresh ?? listed
  const {sending} = domain
  const verify = async () => {
    const found = await api.post(`/v1/domains/${domain.id}/verify`)
    setFresh(found)
    toast(found.sending.status === 'verified' ? `${found.name} is verified` : `${found.name}: ${found.sending.error ?? 'not verified yet'}`)
  }
  return html`<article class="card"><header class="card-head"><h2 class="wrap">${domain.name}</h2><${State} of=${sending.status}/>
      <span class="dim">${sending.checked_at ? html`looked up <${Time} at=${sending.checked_at}/>` : 'never looked up'}</span>
      <span class="end row"><${Act} label="Verify" busy="Asks the DNS…" primary=${sending.status !== 'verified'} run=${verify}/>
        <${Act} label="Delete" danger ask=${DELETE(domain.name)} run=${async () => { await api.del(`/v1/domains/${domain.id}`); onChange() }} done="The domain is deleted"/></span></header>
    ${sending.error && html`<p class="note bad">${sending.error}</p>`}
    ${sending.note && html`<p>${sending.note}</p>`}
    ${!sending.can_send && html`<p class="note warn">Mail from it is refused until it is verified.</p>`}
    <${Table} caption=${`DNS records of ${domain.name}`} columns=${columns} rows=${domain.records} rowKey=${it => it.purpose} keyboard=${false}/></article>`
}

export default function Domains() {
  const {data, error, reload} = useList('/v1/domains')
  const add = async values => {
    await api.post('/v1/domains', values)
    reload()
  }
  return html`<${Page} title=${title} sub="Domains that mail is sent from. Set the records in the DNS, then verify: mail is signed from then on.">
    <${Fields} key=${data?.data[0]?.id} fields=${[{name: 'name', label: 'A domain of yours', example: 'mail.example.com'}]} submit="Add the domain" run=${add}/>
    <${Fault} error=${error} retry=${reload}/>
    ${!data && !error && html`<${Loading} what="domains"/>`}
    ${data?.data.length === 0 && html`<${Empty} title="No domains yet." text="Add one to have its mail signed." command=${shell('domains create example.com')}/>`}
    ${data?.data.map(it => html`<${Domain} key=${it.id} domain=${it} onChange=${reload}/>`)}
    <${Pager} page=${data}/>
  <//>`
}
