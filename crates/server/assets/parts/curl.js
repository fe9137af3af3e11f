// A stored request as a command.
import {api} from '../lib/api.js'
import {quoted} from '../lib/format.js'

const INLINE_BYTES = 64 * 1024
/** What curl writes itself, or what belongs to one connection only. */
const OF_CONNECTION = new Set(['host', 'content-length', 'connection', 'keep-alive', 'transfer-encoding', 'te', 'trailer', 'upgrade',
  'proxy-connection', 'proxy-authorization', 'proxy-authenticate', 'expect', 'accept-encoding'])
/** Headers that prove who sent it, or let in: not to be passed on by accident. */
const PROOF = /signature|hmac|^authorization$|^cookie$|token|secret|api-?key|^(webhook|svix)-(id|timestamp)$/i

export const provesSender = name => PROOF.test(name)

/** The target of a destination: its url, the path suffix, the query. */
export function target(base, request) {
  const [address, own] = base.split('?')
  const path = request.path && request.path !== '/' ? `${address.replace(/\/$/, '')}/${request.path.replace(/^\//, '')}` : address
  const query = [own, request.query].filter(Boolean).join('&')
  return query ? `${path}?${query}` : path
}

/** The command that sends `request` to `base`; bodies that are no text come from a file. */
export async function curl(request, base, {proof}) {
  const lines = [`curl -X ${quoted(request.method)} ${quoted(target(base, request))}`]
  for (const [name, value] of request.headers) {
    if (OF_CONNECTION.has(name.toLowerCase()) || (!proof && provesSender(name))) continue
    lines.push(`-H ${quoted(value === '' ? `${name};` : `${name}: ${value}`)}`)
  }
  if (request.body_bytes > 0) lines.push(`--data-binary ${await body(request)}`)
  return lines.join(' \\\n  ')
}

async function body(request) {
  const file = `@${request.id}.bin`
  if (request.body_bytes > INLINE_BYTES) return file
  try {
    const text = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(await api.bytes(`/requests/${request.id}/body`))
    // curl reads a leading @ as a file, and a shell's argument cannot hold a NUL.
    return text.startsWith('@') || text.includes('\u0000') ? file : quoted(text)
  } catch (error) {
    if (error instanceof TypeError) return file
    throw error
  }
}
