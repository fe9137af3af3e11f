// The head of a page, and boxes of its body.
import {html, useEffect, useRef} from '../lib/dom.js'
import {Copy} from './copy.js'
import {Fault} from './fault.js'
import {Live} from './live.js'

export const PRODUCT = 'Restante'
let first = true

/** The heading takes the focus after a move, so that a screen reader says where one is. */
export function Page({title, heading, sub, actions, children}) {
  const head = useRef(null)
  useEffect(() => { document.title = `${title} · ${PRODUCT}` }, [title])
  useEffect(() => {
    if (!first) head.current?.focus({preventScroll: true})
    first = false
  }, [])
  return html`
    <header class="page-head">
      <div><h1 tabIndex="-1" ref=${head}>${heading ?? title}</h1>${sub && html`<p class="sub">${sub}</p>`}</div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}`
}

/** A titled part of a page. */
export function Section({title, actions, id, children}) {
  return html`<section class="section" id=${id} aria-label=${typeof title === 'string' ? title : undefined}>
    <header class="section-head"><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</header>
    ${children}
  </section>`
}

/** Names and values; entries without a value are left out. */
export function Facts({of}) {
  const shown = of.filter(([, value]) => value !== null && value !== undefined && value !== '')
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** Says what is waited for. */
export const Loading = ({what}) => html`<p class="loading" role="status">Loading ${what}…</p>`

/** Tabs whose choice is in the query: `tabs` is `[value, label]`; the first is the default. */
export function Tabs({tabs, chosen, onChoose, label}) {
  return html`<div class="tabs" role="group" aria-label=${label}>${tabs.map(([value, text]) => html`
    <button type="button" key=${value} aria-pressed=${chosen === value} onClick=${() => onChoose(value)}>${text}</button>`)}</div>`
}

/** Below the heading of one thing: its state, its whole id to copy, and whether what is seen is live. */
export const Identity = ({id, state, live}) => html`<span class="row">${state} <span class="id">${id}</span> <${Copy} text=${id} label="Copy id" class="small"/>${live && html`<${Live} status=${live}/>`}</span>`

/** The page of one thing that is not there yet, or cannot be had. */
export const Waiting = ({title, id, error, reload}) => html`<${Page} title=${title} heading=${html`${title} <span class="mono">${id}</span>`}>
  ${error ? html`<${Fault} error=${error} retry=${reload}/>` : html`<${Loading} what=${`${title.toLowerCase()} ${id}`}/>`}<//>`
