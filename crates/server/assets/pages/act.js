// Parts that the pages of webhooks, emails and the workspace share.
import {confirm, Copy, Fault, html, Id, Loading, pageOf, Pager, setQuery, Table, Tabs, Time, toast, toastError, useEffect, useGet, useRef, useRoute, useState} from './all.js'

/** A button of one call. `ask` (of `confirm`) is asked first; `done` is said afterwards. */
export function Act({label, busy, ask, run, done, danger, primary, small, disabled, title}) {
  const [waits, setWaits] = useState(false)
  const go = async () => {
    if (ask && !(await confirm({danger, confirm: label, ...ask}))) return
    setWaits(true)
    try {
      await run()
      if (done) toast(done)
    } catch (error) { toastError(error) }
    setWaits(false)
  }
  return html`<button type="button" class=${`${danger ? 'danger' : primary ? 'primary' : ''} ${small ? 'small' : ''}`} title=${title}
    disabled=${disabled || waits} onClick=${go}>${waits ? busy ?? `${label}…` : label}</button>`
}

/** A secret that the API tells only once. */
export function Once({what, secret, onClose, children}) {
  const box = useRef(null)
  useEffect(() => box.current.scrollIntoView({block: 'center'}), [secret])
  return html`<section class="note" ref=${box} role="status" aria-label=${what}><h2>${what}</h2>
    <p>It is shown only now: copy it to where it belongs before you leave this page. Nobody can read it back.</p>
    <p class="row"><code class="wrap">${secret}</code><${Copy} text=${secret} label="Copy"/></p>
    ${children && html`<p>${children}</p>`}
    <button type="button" onClick=${onClose}>I have stored it, hide it</button></section>`
}

/** Tabs, or values of a filter, in the query; the first is the default. `drop`: other names that go with a choice. */
export function Choice({name, label, options, drop = []}) {
  const {query} = useRoute()
  const choose = value => setQuery({...Object.fromEntries(drop.map(it => [it, null])), [name]: value === options[0][0] ? null : value})
  return html`<div class="choice"><${Tabs} label=${label} tabs=${options} chosen=${query[name] ?? options[0][0]} onChoose=${choose}/></div>`
}

/** The page of a list that the query's cursor names. */
export function useList(path, params, options) {
  const {query} = useRoute()
  return useGet(path, {...params, ...pageOf(query)}, options)
}

/** What one would type in a shell in place of this page. */
export const shell = command => `restante ${command} --server ${location.origin}`
export const curl = (path, body, header = '') => `curl ${location.origin}/v1${path} -H "Authorization: Bearer $RESTANTE_API_KEY" -H 'Content-Type: application/json' ${header}\\
  -d '${body}'`

/** Until something was read: what is awaited, or what went wrong. */
export const Awaited = ({of: {error, reload}, what}) =>
  (error ? html`<${Fault} error=${error} retry=${reload}/>` : html`<${Loading} what=${what}/>`)

/** Columns of tables: a moment, an id, and text of whatever length. */
export const timeOf = (label, name, more) => ({label, cell: it => html`<${Time} ...${more} at=${it[name]}/>`})
export const idOf = (label, name) => ({label, cell: it => html`<${Id} of=${it[name]}/>`})
export const textOf = (label, name, more) => ({label, ...more, cell: it => html`<span class="wrap">${it[name] ?? '–'}</span>`})

/** A list with what is awaited, what went wrong, that it is empty, and where it goes on. */
export function Listed({list, name, empty, none = `No ${name} here.`, ...table}) {
  const {data, error, reload} = list
  if (!data) return html`<${Awaited} of=${list} what=${name}/>`
  return html`<${Fault} error=${error} retry=${reload}/>
    <${Table} caption=${`${name}, newest first`} rows=${data.data} empty=${empty || html`<p class="dim">${none}</p>`} ...${table}/>
    <${Pager} page=${data}/>`
}
