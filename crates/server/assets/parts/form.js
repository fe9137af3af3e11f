// Forms: labels above, errors below the field that they name.
import {html, useState} from '../lib/dom.js'
import {Fault} from './fault.js'

/**
 * `submit(values)` sends; an ApiError is shown below the field of its `param` or `details`.
 * Gives `{values, set(name, value), busy, error, errorOf(name), run, reset}`.
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
  const errorOf = name => {
    if (!error) return null
    const detail = (error.details ?? []).find(it => it.param === name || it.param?.startsWith(`${name}.`))
    return detail?.message ?? (error.param === name || error.param?.startsWith(`${name}.`) ? error.message : null)
  }
  const reset = next => { setValues(next); setError(null) }
  return {values, set, busy, error, errorOf, run, reset}
}

/** `children` are the fields; `form` is of `useForm`. Errors that no field shows are shown here. */
export function Form({form, submit, onCancel, danger, children}) {
  return html`<form class="form" onSubmit=${form.run} noValidate>
    ${children}
    <${Fault} error=${form.error}/>
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

export function Text({form, name, label, hint, type = 'text', ...rest}) {
  return html`<${Field} label=${label} hint=${hint} error=${form.errorOf(name)}>${field => html`
    <input ...${field} type=${type} value=${form.values[name]} onInput=${event => form.set(name, event.target.value)} autoComplete="off" ...${rest}/>`}<//>`
}

export function Area({form, name, label, hint, rows = 6, ...rest}) {
  return html`<${Field} label=${label} hint=${hint} error=${form.errorOf(name)}>${field => html`
    <textarea ...${field} rows=${rows} spellcheck=${false} onInput=${event => form.set(name, event.target.value)} value=${form.values[name]} ...${rest}/>`}<//>`
}

/** `options`: `[value, label]`. */
export function Select({form, name, label, hint, options, ...rest}) {
  return html`<${Field} label=${label} hint=${hint} error=${form.errorOf(name)}>${field => html`
    <select ...${field} onChange=${event => form.set(name, event.target.value)} ...${rest}>${options.map(([value, text]) => html`
      <option key=${value} value=${value} selected=${form.values[name] === value}>${text}</option>`)}</select>`}<//>`
}

export function Check({form, name, label, hint}) {
  return html`<div class="field check"><label><input type="checkbox" checked=${form.values[name]}
    onChange=${event => form.set(name, event.target.checked)}/> ${label}</label>${hint && html`<p class="hint">${hint}</p>`}</div>`
}
