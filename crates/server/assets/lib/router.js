// Where one is: the path names the page, the query its filters, tabs and cursors.
import {cell, html, useMemo} from './dom.js'

const here = () => location.pathname + location.search
const place = cell(here())
addEventListener('popstate', () => place.set(here()))

export function useRoute() {
  const at = place.use()
  return useMemo(() => parse(at), [at])
}

function parse(at) {
  const url = new URL(at, location.origin)
  const path = url.pathname.replace(/\/+$/, '') || '/'
  return {path, parts: path.split('/').filter(Boolean).map(decoded), query: Object.fromEntries(url.searchParams)}
}

function decoded(part) {
  try { return decodeURIComponent(part) } catch { return part }
}

export function navigate(path, {replace = false} = {}) {
  if (path === here()) return
  history[replace ? 'replaceState' : 'pushState'](null, '', path)
  place.set(here())
}

const CURSORS = ['cursor', 'ending_before']

/** Changes the query; null takes away. Another filter means another list: cursors go. */
export function setQuery(changes, {replace = false} = {}) {
  navigate(withQuery(changes), {replace})
}

/** The address of this page with another query. */
export function withQuery(changes) {
  const query = new URLSearchParams(location.search)
  if (!CURSORS.some(name => name in changes)) for (const name of CURSORS) query.delete(name)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === '') query.delete(name)
    else query.set(name, value)
  }
  const text = query.toString()
  return location.pathname + (text === '' ? '' : `?${text}`)
}

/** `{cursor, ending_before}` of the query, as the API takes them. */
export const pageOf = query => ({cursor: query.cursor, ending_before: query.ending_before})

/** A link inside the dashboard: no reload. New tabs and downloads stay the browser's. */
export function Link({href, children, ...rest}) {
  const follow = event => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    navigate(href)
  }
  return html`<a href=${href} onClick=${follow} ...${rest}>${children}</a>`
}
