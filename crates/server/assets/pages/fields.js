// A form made of a list of fields: it sends what was changed.
import {Field, Form, fromField, html, toField, useForm} from './all.js'

/** A fault of a field that the page found before the API did. */
export const wrong = (param, message) => Object.assign(new Error(message), {code: 'invalid_field', param, details: [{param, message}]})

export const readJson = (text, name) => {
  if (text.trim() === '') return {}
  try { return JSON.parse(text) } catch (error) { throw wrong(name, `This is not JSON: ${error.message}`) }
}

const READ = {
  number: text => (text === '' ? null : Number(text)),
  lines: text => text.split(/[\n,]/).map(line => line.trim()).filter(Boolean),
  time: fromField,
  json: readJson,
}
const SHOW = {
  lines: value => (value ?? []).join('\n'),
  json: value => JSON.stringify(value ?? {}, null, 2),
  time: value => toField(value).slice(0, 16),
  checks: value => value ?? [],
}

/** What stands in the fields for the API's values. */
export const asTexts = (fields, of = {}) =>
  Object.fromEntries(fields.map(it => [it.name, (it.show ?? SHOW[it.kind] ?? (value => value ?? ''))(of[it.name])]))

/** The API's values for what stands in the fields. */
export const asValues = (fields, texts) =>
  Object.fromEntries(fields.map(it => [it.name, (it.read ?? READ[it.kind] ?? (text => text))(texts[it.name], it.name)]))

function Checks({value, options, set, attributes}) {
  const flip = (option, on) => set(on ? [...value, option] : value.filter(it => it !== option))
  return html`<div class="checks" role="group" ...${attributes}>${options.map(option => html`<label key=${option}>
    <input type="checkbox" checked=${value.includes(option)} onChange=${event => flip(option, event.target.checked)}/> <code>${option}</code></label>`)}</div>`
}

function Input({field, value, set, attributes}) {
  const {kind, options, rows = 3, example} = field
  const onInput = event => set(event.target.value)
  if (kind === 'checks') return html`<${Checks} value=${value} options=${options} set=${set} attributes=${attributes}/>`
  if (kind === 'choice') {
    return html`<select ...${attributes} onChange=${onInput}>${options.map(([option, text]) => html`
      <option key=${option} value=${option} selected=${option === value}>${text}</option>`)}</select>`
  }
  if (['area', 'lines', 'json'].includes(kind)) {
    return html`<textarea ...${attributes} class="mono" rows=${rows} spellcheck=${false} placeholder=${example} value=${value} onInput=${onInput}/>`
  }
  const type = {number: 'number', time: 'datetime-local', secret: 'password'}[kind] ?? 'text'
  return html`<input ...${attributes} type=${type} step=${kind === 'number' ? 'any' : undefined} placeholder=${example}
    autoComplete="off" spellcheck=${false} value=${value} onInput=${onInput}/>`
}

/**
 * `fields`: `{name, label, kind: text|area|lines|json|number|time|secret|choice|checks, hint?, example?, options?, rows?, show?, read?}`.
 * `of`: the API's values that it begins with. `run(values)` gets those that were changed. `onTexts` hears of every key.
 */
export function Fields({fields, of, submit, run, onCancel, onTexts, danger}) {
  const first = asTexts(fields, of)
  const form = useForm(first, async texts => {
    const changed = fields.filter(it => it.always || JSON.stringify(texts[it.name]) !== JSON.stringify(first[it.name]))
    await run(asValues(changed, texts))
  })
  const set = name => text => {
    form.set(name, text)
    onTexts?.({...form.values, [name]: text})
  }
  return html`<${Form} form=${form} submit=${submit} onCancel=${onCancel} danger=${danger}>${fields.map(it => html`
    <${Field} key=${it.name} label=${it.label} hint=${it.hint} error=${form.errorOf(it.name)}>${attributes => html`
      <${Input} field=${it} value=${form.values[it.name]} set=${set(it.name)} attributes=${attributes}/>`}<//>`)}<//>`
}
