// A stored body: laid out, raw or in hex. It is shown, never interpreted.
import {html, useEffect, useMemo, useState} from '../lib/dom.js'
import {api, workspace} from '../lib/api.js'
import {bytes as sized} from '../lib/format.js'
import {Copy} from './copy.js'
import {Fault} from './fault.js'
import {Loading, Tabs} from './page.js'
import {pretty} from './pretty.js'
import {toastError} from './toast.js'

/** Larger bodies are read when asked for; of what is read, this much is drawn at once. */
const ASK_BYTES = 1024 * 1024
const DRAWN = 200_000
const PIECES = 20_000

function decode(buffer) {
  try {
    const text = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(buffer)
    return text.includes('\u0000') ? null : text
  } catch { return null }
}

function hex(buffer) {
  const all = new Uint8Array(buffer, 0, Math.min(buffer.byteLength, 16_384))
  const lines = []
  for (let at = 0; at < all.length; at += 16) {
    const row = [...all.subarray(at, at + 16)]
    const codes = row.map(it => it.toString(16).padStart(2, '0')).join(' ').padEnd(47)
    lines.push(`${at.toString(16).padStart(8, '0')}  ${codes}  ${row.map(it => (it > 31 && it < 127 ? String.fromCharCode(it) : '.')).join('')}`)
  }
  return lines.join('\n')
}

/** Saves bytes as a file; their type is never one that a browser would show. */
export function save(buffer, name) {
  const url = URL.createObjectURL(new Blob([buffer], {type: 'application/octet-stream'}))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

/** JSON with its parts marked; with an error, where it is. */
export function Json({text}) {
  const laid = useMemo(() => {
    try { return {pieces: pretty(text)} } catch (error) { return {error} }
  }, [text])
  if (laid.error) {
    const {at} = laid.error
    if (at === undefined) return html`<pre class="body" tabIndex="0">${text.slice(0, DRAWN)}</pre>`
    return html`<p class="json-error" role="note">✕ No valid JSON: ${laid.error.message}.</p>
      <pre class="body" tabIndex="0">${text.slice(Math.max(0, at - 2000), at)}<mark>${text.slice(at, at + 1) || '⏎'}</mark>${text.slice(at + 1, at + 4000)}</pre>`
  }
  const marked = laid.pieces.length <= PIECES
  return html`<pre class="body" tabIndex="0">${marked
    ? laid.pieces.map(([name, piece]) => (name ? html`<span class=${`j-${name}`}>${piece}</span>` : piece))
    : laid.pieces.map(it => it[1]).join('').slice(0, DRAWN * 2)}</pre>`
}

/** Bytes of `path` (or of the request `requestId`), read when seen. `raw` shows a text that is at hand instead. */
export function BodyView({requestId, path = requestId && `/requests/${requestId}/body`, contentType, bytes, name = requestId ?? 'body', raw}) {
  const [read, setRead] = useState({buffer: null, error: null})
  const [wanted, want] = useState(bytes === undefined || bytes <= ASK_BYTES)
  const [mode, setMode] = useState(null)
  const [whole, setWhole] = useState(false)
  const load = async () => {
    try {
      setRead({buffer: await api.bytes(path), error: null})
    } catch (error) { setRead({buffer: null, error}) }
  }
  useEffect(() => { if (raw === undefined && wanted && bytes !== 0) load() }, [path, wanted, workspace.get()])
  const text = useMemo(() => raw ?? (read.buffer && decode(read.buffer)), [raw, read.buffer])
  if (bytes === 0) return html`<p class="dim">The body is empty.</p>`
  const download = async () => {
    try {
      save(raw !== undefined ? new TextEncoder().encode(raw) : read.buffer ?? await api.bytes(path), `${name}.bin`)
    } catch (error) { toastError(error) }
  }
  const ready = raw !== undefined || read.buffer
  const looksJson = text !== null && (/json/i.test(contentType ?? '') || /^\s*[{[]/.test(text ?? ''))
  const looksForm = text !== null && /^application\/x-www-form-urlencoded/i.test(contentType ?? '')
  const modes = [(looksJson || looksForm) && ['pretty', looksForm ? 'Fields' : 'Pretty'], text !== null && ['raw', 'Raw'], read.buffer && ['hex', 'Hex']].filter(Boolean)
  const shown = modes.some(([value]) => value === mode) ? mode : modes[0]?.[0]
  const cut = text !== null && !whole && (text?.length ?? 0) > DRAWN
  return html`<div class="body-view">
    <div class="bar">${ready && html`<${Tabs} tabs=${modes} chosen=${shown} onChoose=${setMode} label="How the body is shown"/>`}
      <span class="dim">${bytes !== undefined && sized(bytes)}${contentType ? html` · <span class="mono">${contentType}</span>` : ''}</span>
      <span class="end actions">${ready && text !== null && html`<${Copy} text=${text} label="Copy body"/>`}
        <button type="button" onClick=${download}>Download</button></span></div>
    ${!wanted && html`<p>The body has ${sized(bytes)}. <button type="button" onClick=${() => want(true)}>Show it</button></p>`}
    <${Fault} error=${read.error} retry=${load}/>
    ${wanted && !ready && !read.error && html`<${Loading} what=${`the body of ${name}`}/>`}
    ${ready && shown === 'pretty' && (looksForm
      ? html`<dl class="headers">${[...new URLSearchParams(text)].map(([field, value], at) => html`<div key=${at}><dt>${field}</dt><dd>${value}</dd></div>`)}</dl>`
      : html`<${Json} text=${text}/>`)}
    ${ready && shown === 'raw' && html`<pre class="body" tabIndex="0">${cut ? text.slice(0, DRAWN) : text}</pre>`}
    ${ready && shown === 'raw' && cut && html`<button type="button" onClick=${() => setWhole(true)}>Show all ${sized(text.length)}</button>`}
    ${ready && shown === 'hex' && html`<pre class="body hex" tabIndex="0">${hex(read.buffer)}</pre>${read.buffer.byteLength > 16_384 && html`<p class="dim">The first 16 KiB. Download has all.</p>`}`}
  </div>`
}
