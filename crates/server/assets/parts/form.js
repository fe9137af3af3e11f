// Forms: labels above, errors below the field that they name.
import {html, useState} from '../lib/dom.js'
import {Fault} from './fault.js'

const isOf = (param, name) => param === name || param?.startsWith(`${name}.`) || param?.startsWith(`${name}[`)

/** What the API says of a field and of what is inside it: `events`, `events[0]`, `headers.Host`. */
function errorOf(error, name) {
  const said = (error?.details ?? []).filter(it => isOf(it.param, name)).map(it => (it.param === name ? it.message : `${it.param}: ${it.message}`))
  if (said.length > 0) return said.join('; ')
  return isOf(error?.param, name) ? error.message : null
}

/**
 * `submit(values)` sends; an ApiError is shown below the field of its `param` or `details`.
 * Gives `{values, set(name, value), busy, error, errorOf(name), run}`.
 */
export function useForm(initial, submit) {
  const [values, setValues] = useState(initial)
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState(null)
  const set = (name, value) => setValues(old => ({...old, [name]: value}))
  const run = async event => {
    event?.preventDefault()
    if (busy) return
    setBusy(true)
    setError(null)
    try {
      await submit(values)
    } catch (caught) { setError(caught) }
    setBusy(false)
  }
  return {values, set, busy, error, errorOf: name => errorOf(error, name), run}
}

/** `children` are the fields; `form` is of `useForm`. Errors that no field shows are shown here. */
export function Form({form, submit, onCancel, danger, children}) {
  const {error} = form
  const names = Object.keys(form.values)
  const named = error && names.some(form.errorOf)
  const rest = (error?.details ?? []).filter(it => !names.some(name => isOf(it.param, name)))
  return html`<form class="form" onSubmit=${form.run} noValidate>
    ${children}
    <${Fault} error=${named ? {...error, message: 'A field needs another value.', param: null, details: rest} : error}/>
    <div class="actions"><button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${form.busy}>${form.busy ? 'Working…' : submit}</button>
      ${onCancel && html`<button type="button" onClick=${onCancel}>Cancel</button>`}</div>
  </form>`
}

let last = 0

/** The frame of a field: `children` gets `{id, 'aria-describedby', 'aria-invalid'}`. */
export function Field({label, hint, error, children}) {
  const [id] = useState(() => `field-${(last += 1)}`)
  const about = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ') || undefined
  return html`<div class="field"><label for=${id}>${label}</label>
    ${children({id, 'aria-describedby': about, 'aria-invalid': error ? 'true' : undefined})}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="field-error" id=${`${id}-error`}>✕ ${error}</p>`}</div>`
}
