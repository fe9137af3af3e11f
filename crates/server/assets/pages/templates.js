import {api, Empty, html, navigate, Page, quoted, Section, State, toast, useState} from './all.js'
import {curl, Listed, shell, textOf, timeOf, useList} from './act.js'
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

/** The call that sends a template. */
export const sendCommand = (slug, props) => shell(`send email --from shop@example.com --to ada@example.net --template ${slug} --props ${quoted(JSON.stringify(props))}`)

const columns = [
  {label: 'Status', cell: it => html`<${State} of=${it.status} look=${it.status === 'published' ? 'good' : null} text=${it.status}/>`},
  textOf('Name', 'name', {main: true}),
  textOf('Slug', 'slug', {class: 'mono mid'}),
  textOf('Subject', 'subject'),
  {label: 'Version sent', class: 'num', cell: it => it.published_version ?? 'none'},
  timeOf('Changed', 'updated_at'),
]

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
      empty=${html`<${Empty} title="No templates yet." text="Make one, here or by the API, and send it." command=${[
        curl('/templates', '{"name": "Welcome", "slug": "welcome", "subject": "Welcome, {{ name }}", "text": "Hello {{ name }}", "publish": true}'),
        sendCommand('welcome', {name: 'Ada'})]}/>`}/>
  <//>`
}
