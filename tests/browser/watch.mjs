// Watches what pages do besides showing something: calls, complaints of the browser, dialogs.

import {api} from './api.mjs'

const PAGES = /^\/((sources|requests|deliveries|events|webhooks|emails|templates|domains|suppressions|keys|settings|credits|notices|sign-in)(\/[^/]+)?)?$/

const calls = []
const complaints = []
/** Addresses of pages that do not exist and are asked for on purpose. */
const strays = new Set()

/** What is said of a frame that shows somebody else's HTML. Violations by the dashboard itself are told by their event. */
const ofSandbox = url => url === '' || url === 'about:srcdoc' || url.endsWith('/frame')
let sandboxMayComplain = false

/** Hostile HTML makes the browser complain that it blocked something. */
export const expectBlocked = () => { sandboxMayComplain = true }
export const expectStray = path => strays.add(path)
export const complain = what => complaints.push(what)

/** What is asked for and not yet answered; the stream of what happens never is. */
const open = new Set()
export const quiet = () => open.size === 0

export async function watch(context) {
  context.on('request', request => {
    calls.push(request)
    if (request.resourceType() === 'fetch') open.add(request)
  })
  context.on('requestfinished', request => open.delete(request))
  context.on('requestfailed', request => open.delete(request))
  context.on('console', message => {
    const url = message.location().url
    if (!['error', 'warning'].includes(message.type()) || message.text().startsWith('Failed to load resource')) return
    if (!(sandboxMayComplain && ofSandbox(url))) complain(`the console says: ${message.text()} (${url})`)
  })
  context.on('weberror', error => complain(`a page broke: ${error.error().stack ?? error.error()}`))
  context.on('dialog', async dialog => {
    complain(`a dialog opened: ${dialog.message()}`)
    await dialog.dismiss()
  })
  await context.exposeFunction('tellOfViolation', what => complain(`the policy was violated: ${what}`))
  await context.addInitScript(() => {
    if (window !== top) return
    addEventListener('securitypolicyviolation', it => globalThis.tellOfViolation(`${it.effectiveDirective} by ${it.blockedURI} (${it.sourceFile}:${it.lineNumber})`))
  })
}

/** Nothing was complained about since the last time. */
export function checkComplaints() {
  const all = complaints.splice(0)
  if (all.length > 0) throw new Error(`expected no complaints:\n${all.join('\n')}`)
}

/** Each call was one of the API's, or for a page and what it is made of. */
export async function checkCalls() {
  checkComplaints()
  const description = await api.get('/v1/openapi.json')
  const known = Object.keys(description.paths).filter(path => path.startsWith('/v1/')).map(path => [path, pattern(path)])
  const origin = new URL(api.url).origin
  const allowed = (method, url) => {
    if (['data:', 'blob:'].includes(url.protocol) || url.href === 'about:srcdoc') return true
    if (url.origin !== origin) return false
    const at = url.pathname
    if (at === '/session') return true
    if (method === 'GET' && (PAGES.test(at) || at === '/frame' || at.startsWith('/assets/') || strays.has(at))) return true
    return known.some(([path, shape]) => shape.test(at) && description.paths[path][method.toLowerCase()])
  }
  // A policy let nothing of these out, as the listener knows too.
  const made = calls.filter(it => !(sandboxMayComplain && ['csp', 'origin'].includes(it.failure()?.errorText)))
  const wrong = made.filter(it => !allowed(it.method(), new URL(it.url()))).map(it => `${it.method()} ${it.url()} ${it.failure()?.errorText ?? ''}`)
  if (wrong.length > 0) throw new Error(`expected no calls but those of the API:\n${[...new Set(wrong)].join('\n')}`)
  if (!made.some(it => it.url().includes('/v1/'))) throw new Error('expected the pages to call the API')
}

const pattern = path => new RegExp(`^${path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{[^}]+\}/g, '[^/]+')}$`)
