// What surrounds every page: search, choices, navigation.
import {html, useState} from '../lib/dom.js'
import {signOut, useGet, workspace} from '../lib/api.js'
import {search} from '../lib/ids.js'
import {heard, useKeys} from '../lib/keys.js'
import {Link, navigate} from '../lib/router.js'
import {zone} from '../lib/time.js'
import {Dialog} from './dialog.js'
import {ThemeChoice} from './theme.js'
import {toastError} from './toast.js'

const NAV = [
  ['', [['/', 'Overview']]],
  ['Inbound', [['/requests', 'Requests'], ['/sources', 'Sources']]],
  ['Outbound', [['/events', 'Events'], ['/webhooks', 'Webhooks']]],
  ['Email', [['/emails', 'Emails'], ['/templates', 'Templates'], ['/domains', 'Domains'], ['/suppressions', 'Suppressions']]],
  ['All', [['/deliveries', 'Deliveries'], ['/notices', 'Notices'], ['/keys', 'Keys'], ['/settings', 'Settings']]],
]

export function SearchBox({id = 'search', label = 'Everything'}) {
  const [text, setText] = useState('')
  const go = async event => {
    event.preventDefault()
    if (text.trim() === '') return
    try {
      navigate(await search(text))
      setText('')
      document.activeElement?.blur?.()
    } catch (error) {
      toastError(error.status === 404 ? new Error(`Nothing has the id ${text.trim()} here.`) : error)
    }
  }
  return html`<form class="search" role="search" aria-label=${label} onSubmit=${go}>
    <input id=${id} type="search" value=${text} onInput=${event => setText(event.target.value)} spellcheck=${false} autoComplete="off"
      onKeyDown=${event => { if (event.key === 'Escape') event.target.blur() }}
      aria-label="Search: an id, a request key, a Message-ID, or a text in bodies" placeholder="Any id, or a text in bodies  ( / )"/></form>`
}

function WorkspaceChoice() {
  const chosen = workspace.use()
  const own = useGet('/workspace')
  const {data} = useGet('/workspaces', {limit: 100})
  if (!data || data.data.length < 2) return own.data ? html`<${Link} class="dim workspace" href="/settings">${own.data.name}<//>` : null
  return html`<select class="small" aria-label="Workspace" onChange=${event => { workspace.set(event.target.value || null); navigate('/') }}>
    ${data.data.map(it => html`<option key=${it.id} value=${it.id} selected=${it.id === (chosen ?? own.data?.id)}>${it.name}</option>`)}</select>`
}

function ZoneChoice() {
  const now = zone.use()
  return html`<button type="button" class="small" onClick=${() => zone.set(now === 'utc' ? 'local' : 'utc')}
    title="Times are shown in this zone">${now === 'utc' ? 'UTC' : 'local time'}</button>`
}

export function Shell({path, onHelp, children}) {
  const [open, setOpen] = useState(false)
  useKeys({Escape: [null, () => {
    if (!document.activeElement?.matches('input, textarea, select')) return false
    document.activeElement.blur()
  }]})
  const at = href => (href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`))
  const leave = () => signOut().then(() => navigate('/sign-in'), toastError)
  return html`<a class="skip" href="#main" onClick=${event => { event.preventDefault(); document.getElementById('main').focus() }}>Skip to the content</a>
  <header class="top">
    <button type="button" class="menu small" aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}>Menu</button>
    <${Link} class="brand" href="/">Restante<//>
    <${SearchBox}/>
    <div class="choices"><${WorkspaceChoice}/><${ZoneChoice}/><${ThemeChoice}/>
      <button type="button" class="small" onClick=${onHelp} aria-label="Keyboard help" title="Keyboard help (?)">?</button>
      <button type="button" class="small" onClick=${leave}>Sign out</button></div>
  </header>
  <div class="frame">
    <nav id="nav" class=${open ? 'nav open' : 'nav'} aria-label="Pages" onClick=${() => setOpen(false)}>${NAV.map(([group, links]) => html`
      <div key=${group}>${group && html`<p>${group}</p>`}${links.map(([href, label]) => html`
        <${Link} key=${href} href=${href} aria-current=${at(href) ? 'page' : undefined}>${label}<//>`)}</div>`)}</nav>
    <main id="main" tabIndex="-1">${children}</main>
  </div>`
}

/** The keys that are heard on this page. */
export function Help({onClose}) {
  return html`<${Dialog} title="Keyboard" onClose=${onClose}>
    <dl class="keys">${[...heard(), ['Esc', 'Close, or leave a field']].map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
  <//>`
}
