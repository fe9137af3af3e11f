// Permanent URLs that receive webhooks.
import {api, Copy, Dialog, Empty, html, navigate, Page, State, Time, toast, useState} from './all.js'
import {Listed, useList} from './act.js'
import {Fields} from './fields.js'

export const title = 'Sources'

const NAME = [{name: 'name', label: 'Name', hint: 'Unique in the workspace, at most 128 characters. Commands use it: restante listen 3000 --source NAME'}]

function Create({onClose}) {
  const run = async values => {
    const made = await api.post('/sources', values)
    toast('The source is made. Its URL takes requests from now on.')
    navigate(`/sources/${made.id}`)
  }
  return html`<${Dialog} title="New source" onClose=${onClose}><div><${Fields} fields=${NAME} submit="Make the source" run=${run} onCancel=${onClose}/></div><//>`
}

export default function Sources() {
  const list = useList('/sources', {limit: 50}, {every: 10_000})
  const [making, make] = useState(false)
  return html`<${Page} title=${title} sub="A source is a permanent URL. What it receives goes to each of its destinations."
      actions=${html`<button type="button" class="primary" onClick=${() => make(true)}>New source</button>`}>
    ${making && html`<${Create} onClose=${() => make(false)}/>`}
    <${Listed} list=${list} name="sources" rowHref=${it => `/sources/${it.id}`}
      empty=${html`<${Empty} title="There is no source yet." text="Make one, give it a destination, and hand its URL to whoever sends webhooks:"
        command=${['restante sources create shop', 'restante destinations create --source shop --url https://api.example.com/hooks',
          `curl ${location.origin}/v1/sources -H "Authorization: Bearer $KEY" -d '{"name":"shop"}'`]}/>`}
      columns=${[
        {label: 'Name', class: 'clip', main: true, cell: it => it.name},
        {label: 'URL', class: 'mono', cell: it => html`<span class="row"><span class="wrap grow">${it.url}</span><${Copy} text=${it.url} class="small"/></span>`},
        {label: 'Clients', class: 'tight', cell: it => (it.clients_connected > 0 ? html`<${State} of="active" text=${`${it.clients_connected} connected`}/>` : html`<span class="dim">none</span>`)},
        {label: 'Kept', class: 'tight', cell: it => `${it.retention_days} d`},
        {label: 'Made', class: 'tight', cell: it => html`<${Time} at=${it.created_at}/>`},
      ]}/>
  <//>`
}
