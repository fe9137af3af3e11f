import {api, Command, Copy, Fault, html, Loading, navigate, Page, SafeHtml, Section, State, toast, useEffect, useGet, useState} from './all.js'
import {Act, Awaited, Choice, Listed, textOf, timeOf, useList} from './act.js'
import {asTexts, asValues, Fields, readJson} from './fields.js'
import {CONTENT_FIELDS, NAME_FIELDS, sendCommand} from './templates.js'

export const title = 'Template'

/** A preview follows the keys after this pause. */
const PAUSE_MS = 400

const PUBLISH = {title: 'Publish the draft?', body: 'Every email made from this template from now on says what the draft says.'}
const DELETE = {title: 'Delete this template?', body: 'Its versions go with it, and calls that name it fail. Emails that were made of it stay.'}

const TABS = [['draft', 'Draft and preview'], ['versions', 'Versions'], ['settings', 'Name and slug']]

export default function Template({id, query}) {
  const path = `/v1/templates/${encodeURIComponent(id)}`
  const got = useGet(path)
  const {data: template, error, reload} = got
  if (!template) return html`<${Page} title=${title}><${Awaited} of=${got} what=${`the template ${id}`}/><//>`
  const draft = template.latest?.state === 'draft'
  const actions = html`
    <${Act} label="Publish the draft" primary disabled=${!draft} title=${draft ? null : 'What is saved is published'} ask=${PUBLISH}
      run=${async () => { await api.post(`${path}/versions`); reload() }} done="The draft is published"/>
    <${Act} label="Duplicate" run=${async () => navigate(`/templates/${(await api.post(`${path}/duplicate`, {})).id}`)} done="This is the copy"/>
    <${Act} label="Delete" danger ask=${DELETE} run=${async () => { await api.del(path); toast('The template is deleted'); navigate('/templates') }}/>`
  const tab = TABS.some(([name]) => name === query.tab) ? query.tab : 'draft'
  return html`<${Page} title=${title} heading=${template.name} actions=${actions}
      sub=${html`<code>${template.slug}</code> <${Copy} text=${template.slug} class="small" label="Copy slug"/> ${template.description}`}>
    <${Fault} error=${error} retry=${reload}/>
    <p>${template.published_version ? html`<${State} look="good" text=${`version ${template.published_version} is sent`}/>` : html`<${State} of="draft" text="nothing is published: it cannot be sent yet"/>`}
      ${draft && html` <${State} look="wait" text=${`version ${template.latest_version} is a draft`}/>`}</p>
    <${Choice} name="tab" label="Parts of this template" options=${TABS}/>
    ${tab === 'draft' && html`<${Draft} key=${template.updated_at} template=${template} path=${path} onSaved=${reload}/>`}
    ${tab === 'versions' && html`<${Versions} path=${path}/>`}
    ${tab === 'settings' && html`<${Section} title="Name and slug"><${Fields} key=${template.updated_at} fields=${NAME_FIELDS} of=${template} submit="Save"
      run=${async values => { await api.patch(path, values); toast('Saved'); reload() }}/><//>`}
    <${Section} title="Send it"><${Command}>${sendCommand(template.slug, template.latest?.props ?? {})}<//><//>
  <//>`
}

function Draft({template, path, onSaved}) {
  const [texts, setTexts] = useState(asTexts(CONTENT_FIELDS, template.latest))
  const saved = async values => {
    await api.post(`${path}/content`, values)
    toast('The draft is saved. Publish it to send it')
    onSaved()
  }
  return html`<div class="split"><${Section} title="Draft"><${Fields} fields=${CONTENT_FIELDS} of=${template.latest} submit="Save the draft" run=${saved} onTexts=${setTexts}/><//>
    <${Preview} texts=${texts}/></div>`
}

/** Renders what stands in the form, saved or not. */
function Preview({texts}) {
  const [props, setProps] = useState('{}')
  const [shown, setShown] = useState(null)
  const [error, setError] = useState(null)
  useEffect(() => {
    let left = false
    const render = async () => {
      try {
        const {props: own, ...parts} = asValues(CONTENT_FIELDS, texts)
        const given = readJson(props, 'props')
        const made = await api.post('/v1/templates/render', {...parts, props: {...own, ...given}})
        if (!left) { setShown(made); setError(null) }
      } catch (caught) { if (!left) setError(caught) }
    }
    const timer = setTimeout(render, PAUSE_MS)
    return () => { left = true; clearTimeout(timer) }
  }, [texts, props])
  return html`<${Section} title="Preview"><label class="field">Values of a caller, as JSON
      <textarea rows="3" spellcheck=${false} value=${props} onInput=${event => setProps(event.target.value)}/></label>
    <${Fault} error=${error}/>
    ${!shown ? !error && html`<${Loading} what="the preview"/>` : html`<p>Subject: <strong class="wrap">${shown.subject}</strong></p>
      ${shown.html && html`<${SafeHtml} markup=${shown.html} title="The preview as HTML"/>`}
      ${shown.text && html`<pre class="body" tabIndex="0">${shown.text}</pre>`}`}<//>`
}

function Versions({path}) {
  const list = useList(`${path}/versions`)
  return html`<${Listed} list=${list} name="versions" none="Nothing was published yet." columns=${[
    textOf('Version', 'version'),
    textOf('Subject', 'subject'),
    timeOf('Published', 'published_at', {exactly: true}),
    {label: 'Content', cell: it => html`<details><summary>Show</summary>${[it.html, it.text].filter(Boolean).map((text, index) => html`<pre key=${index} class="body">${text}</pre>`)}</details>`},
  ]}/>`
}
