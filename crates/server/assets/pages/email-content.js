// What is in an email: as HTML, as text, its headers, attachments and bytes.
import {api, bytes, Copy, Fault, html, Loading, SafeHtml, save, Table, useEffect, useState} from './all.js'
import {Act, idOf, Listed, textOf, timeOf, useList} from './act.js'

/** Images that an email carries are put into its HTML up to this size. */
const INLINE_BYTES_MAX = 512 * 1024
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']

const dataUri = (type, buffer) => new Promise(resolve => {
  const reader = new FileReader()
  reader.onload = () => resolve(reader.result)
  reader.readAsDataURL(new Blob([buffer], {type}))
})

/** The HTML with the images that the email carries in place of their `cid:` addresses. */
async function withImages({html: text, attachments}, path) {
  let shown = text
  for (const it of attachments) {
    const cid = it.content_id?.replace(/^<|>$/g, '')
    if (!cid || !IMAGES.includes(it.content_type) || it.bytes > INLINE_BYTES_MAX || !text.includes(`cid:${cid}`)) continue
    shown = shown.replaceAll(`cid:${cid}`, await dataUri(it.content_type, await api.bytes(`${path}/attachments/${it.index}`)))
  }
  return shown
}

export function Html({content, path, email}) {
  const [shown, setShown] = useState(content.html)
  useEffect(() => {
    let left = false
    if (content.html) withImages(content, path).then(text => { if (!left) setShown(text) }, () => {})
    return () => { left = true }
  }, [content])
  if (content.html === null) return html`<p class="dim">It has no HTML.</p>`
  return html`<${SafeHtml} markup=${shown} title=${`The email ${email.id} as HTML`}/>`
}

export function Text({content}) {
  if (content.text === null) return html`<p class="dim">It has no text.</p>`
  return html`<pre class="body" tabIndex="0">${content.text}</pre><p><${Copy} text=${content.text} label="Copy the text"/></p>`
}

export function Headers({content}) {
  return html`<dl class="headers">${content.headers.map(([name, value], index) => html`<div key=${index}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** A name that a file system takes. */
const fileName = (name, index) => (name ?? '').replace(/[/\\:*?"<>|\u0000-\u001f\u202a-\u202e\u2066-\u2069]/g, '_').replace(/^\.+/, '') || `attachment-${index}`

export function Attachments({content, path}) {
  const columns = [
    {label: 'File', cell: it => html`<span class="wrap">${it.filename ?? `attachment ${it.index}`}</span>`},
    textOf('Type', 'content_type', {class: 'mono'}),
    {label: 'Size', class: 'num', cell: it => bytes(it.bytes)},
    {label: 'Inline', cell: it => (it.inline ? html`yes <code class="wrap">${it.content_id}</code>` : 'no')},
    {label: 'Act', cell: it => html`<${Act} small label="Download" run=${async () => save(await api.bytes(`${path}/attachments/${it.index}`), fileName(it.filename, it.index))}/>`},
  ]
  return html`<${Table} caption="Attachments" columns=${columns} rows=${content.attachments} rowKey=${it => it.index} empty=${html`<p class="dim">It has no attachments.</p>`}/>`
}

/** So much of the source is shown; the rest is in the download. */
const SOURCE_BYTES_MAX = 256 * 1024

export function Source({content, path, email}) {
  const [text, setText] = useState(null)
  const [error, setError] = useState(null)
  useEffect(() => {
    api.bytes(`${path}/source`).then(it => setText(new TextDecoder().decode(it.slice(0, SOURCE_BYTES_MAX))), setError)
  }, [path])
  const more = content.source_bytes > SOURCE_BYTES_MAX
  return html`<p class="row"><${Act} label="Download .eml" run=${async () => save(await api.bytes(`${path}/source`), `${email.id}.eml`)}/>
      <span class="dim">${bytes(content.source_bytes)}${more && `, the first ${bytes(SOURCE_BYTES_MAX)} are shown`}</span></p>
    <${Fault} error=${error}/>
    ${text === null ? !error && html`<${Loading} what="the source"/>` : html`<pre class="body" tabIndex="0">${text}</pre>`}`
}

export function Events({path}) {
  const list = useList(`${path}/events`, {limit: 50}, {every: 5000})
  return html`<p class="dim">What webhooks were told about this email, oldest first.</p>
    <${Listed} list=${list} name="events" columns=${[
      timeOf('When', 'created_at', {exactly: true, ms: true}),
      textOf('Type', 'type', {class: 'mono'}),
      {label: 'Recipient', cell: it => it.data.recipient ?? html`<span class="dim">all</span>`},
      {label: 'Data', cell: it => html`<details><summary>Show</summary><pre class="body">${JSON.stringify(it.data, null, 2)}</pre></details>`},
      idOf('Event', 'id'),
    ]}/>`
}
