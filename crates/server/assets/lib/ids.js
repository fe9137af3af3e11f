// From an id to its page.
import {api} from './api.js'

const PAGES = {
  req: 'requests', whe: 'events', em: 'emails', dlv: 'deliveries', src: 'sources', whk: 'webhooks', tpl: 'templates',
}
const LISTS = {key: '/keys', dom: '/domains', ntc: '/notices', sup: '/suppressions', ws: '/settings'}
const KNOWN = /^(req|whe|em|dlv|att|src|dst|whk|er|rpl|key|tpl|dom|ntc)_[0-9a-hjkmnp-tv-z]{26}$/
const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

/** The page of an id by its prefix alone; null when that needs a look at the server. */
export function pageFor(id) {
  const prefix = String(id).split('_')[0]
  if (PAGES[prefix]) return `/${PAGES[prefix]}/${id}`
  return LISTS[prefix] ?? null
}

/** The request whose key a receiver saw, a UUID. */
export function requestOfKey(uuid) {
  let rest = BigInt(`0x${uuid.replaceAll('-', '')}`)
  let text = ''
  for (let at = 0; at < 26; at += 1) {
    text = ALPHABET[Number(rest & 31n)] + text
    rest >>= 5n
  }
  return `req_${text}`
}

/** Where the search box leads: a path. */
export async function search(typed) {
  const text = typed.trim()
  const message = text.match(/^<?(em_[0-9a-hjkmnp-tv-z]{26})@/i)
  if (message) return `/emails/${message[1].toLowerCase()}`
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return `/requests/${requestOfKey(text)}`
  const id = text.toLowerCase()
  if (!KNOWN.test(id)) return `/requests?text=${encodeURIComponent(text)}`
  const page = pageFor(id)
  if (page) return page
  return (await api.get(`/find/${id}`)).page
}
