// Filters of a list: every one is in the address.
import {html} from '../lib/dom.js'
import {setQuery, useRoute} from '../lib/router.js'
import {fromField, toField} from '../lib/time.js'

/**
 * `fields`: `{name, label, type: 'text'|'choice'|'time', options?: [value, label]}`.
 * Text applies on Enter or when the field is left; the rest at once. `children` stand before them.
 */
export function Filters({fields, children}) {
  const {query} = useRoute()
  const put = (name, value) => { if ((query[name] ?? '') !== (value ?? '')) setQuery({[name]: value}) }
  const any = fields.some(field => query[field.name])
  const input = ({name, type, label, options}) => {
    if (type === 'choice') {
      return html`<select aria-label=${label} onChange=${event => put(name, event.target.value)}>
        <option value="" selected=${!query[name]}>any</option>
        ${options.map(([value, text]) => html`<option key=${value} value=${value} selected=${query[name] === value}>${text}</option>`)}
        ${query[name] && !options.some(([value]) => value === query[name]) && html`<option value=${query[name]} selected>${query[name]}</option>`}</select>`
    }
    if (type === 'time') {
      return html`<input type="datetime-local" step="1" key=${query[name]} value=${toField(query[name])} aria-label=${label}
        onChange=${event => put(name, fromField(event.target.value))}/>`
    }
    return html`<input type="search" key=${query[name]} value=${query[name] ?? ''} aria-label=${label}
      onChange=${event => put(name, event.target.value.trim())}
      onKeyDown=${event => { if (event.key === 'Enter') put(name, event.target.value.trim()) }}/>`
  }
  return html`<div class="filters" role="search" aria-label="Filters">${children}
    ${fields.map(field => html`<label key=${field.name} class=${query[field.name] ? 'set' : ''}><span>${field.label}</span>${input(field)}</label>`)}
    ${any && html`<button type="button" onClick=${() => setQuery(Object.fromEntries(fields.map(field => [field.name, null])))}>Clear filters</button>`}</div>`
}

/** One value of one filter, in one click. */
export function FilterSwitch({name, value, label}) {
  const {query} = useRoute()
  const on = query[name] === value
  return html`<button type="button" aria-pressed=${on} onClick=${() => setQuery({[name]: on ? null : value})}>${label}</button>`
}
