import {api} from '../lib/api.js'
import {html, useState} from '../lib/dom.js'
import {navigate} from '../lib/router.js'
import {Time} from '../lib/time.js'
import {Empty} from '../parts/empty.js'
import {Page, Section} from '../parts/page.js'
import {State} from '../parts/state.js'
import {toast} from '../parts/toast.js'
import {Listed, useList} from './act.js'
import {Fields} from './fields.js'

export const title = 'Templates'

export const NAME_FIELDS = [
  {name: 'name', label: 'Name'},
  {name: 'slug', label: 'Slug', hint: 'Stands for the id in calls: lower-case letters, digits and dashes'},
  {name: 'description', label: 'Description', hint: 'For people'},
]
export const CONTENT_FIELDS = [
  {name: 'subject', label: 'Subject', example: 'Welcome, {{ name }}', always: true},
  {name: 'html', label: 'HTML', kind: 'area', rows: 12, hint: 'Values are escaped in it', read: text => text || null, always: true},
  {name: 'text', label: 'Text', kind: 'area', rows: 8, hint: 'HTML, text or both', read: text => text || null, always: true},
  {name: 'props', label: 'Values for what a caller leaves out', kind: 'json', rows: 4, example: '{"name": "Ada"}', always: true},
]

const columns = [
  {label: 'Status', cell: it => html`<${State} of=${it.status} look=${it.status === 'published' ? 'good' : null} text=${it.status}/>`},
  {label: 'Name', main: true, class: 'grow', cell: it => html`<span class="wrap">${it.name}</span>`},
  {label: 'Slug', cell: it => html`<code class="wrap">${it.slug}</code>`},
  {label: 'Subject', cell: it => html`<span class="wrap">${it.subject}</span>`},
  {label: 'Version sent', class: 'num', cell: it => it.published_version ?? 'none'},
  {label: 'Changed', cell: it => html`<${Time} at=${it.updated_at}/>`},
]

const command = () => `curl ${location.origin}/v1/templates -H "Authorization: Bearer $RESTANTE_API_KEY" -H 'Content-Type: application/json' \\
  -d '{"name": "Welcome", "slug": "welcome", "subject": "Welcome, {{ name }}", "text": "Hello {{ name }}", "publish": true}'`

export default function Templates() {
  const list = useList('/v1/templates')
  const [asks, setAsks] = useState(false)
  const create = async values => {
    const made = await api.post('/v1/templates', values)
    toast('The template is made, as a draft')
    navigate(`/templates/${made.id}`)
  }
  return html`<${Page} title=${title} sub="What emails are made from. A call names the template and gives the values; what is published is sent."
      actions=${html`<button type="button" class="primary" aria-expanded=${asks} onClick=${() => setAsks(!asks)}>New template</button>`}>
    ${asks && html`<${Section} title="New template"><${Fields} submit="Create the template" run=${create} onCancel=${() => setAsks(false)}
      fields=${[...NAME_FIELDS, ...CONTENT_FIELDS.map(it => ({...it, always: false}))]}/><//>`}
    <${Listed} list=${list} name="templates" columns=${columns} rowHref=${it => `/templates/${it.id}`}
      empty=${html`<${Empty} title="No templates yet." text="Make one, here or by the API, and send it." command=${[command(),
        `restante send email --from shop@example.com --to ada@example.net --template welcome --props '{"name": "Ada"}' --server ${location.origin}`]}/>`}/>
  <//>`
}
