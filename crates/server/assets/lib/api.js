// Calls of the public API, with the session's cookie.
import {cell, useCallback, useEffect, useRef, useState} from './dom.js'

/** `{csrf, expires_at}`; null: signed out; undefined: not known yet. */
export const session = cell(undefined)

/** The workspace that an admin key acts in; null: the key's own. Of this tab only. */
export const workspace = cell(read('restante.workspace'))
workspace.follow(() => {
  try {
    if (workspace.get()) sessionStorage.setItem('restante.workspace', workspace.get())
    else sessionStorage.removeItem('restante.workspace')
  } catch { /* storage is refused */ }
})

function read(name) {
  try { return sessionStorage.getItem(name) } catch { return null }
}

export class ApiError extends Error {
  constructor(status, error, retryAfter) {
    super(error.message)
    this.status = status
    this.code = error.code
    this.param = error.param ?? null
    this.details = error.details ?? []
    this.requestId = error.request_id ?? null
    this.retryAfter = retryAfter
  }
}

async function fault(response) {
  const seconds = Number(response.headers.get('retry-after'))
  const id = response.headers.get('x-request-id')
  let error = null
  try { error = (await response.json()).error } catch { /* not ours: a proxy's page */ }
  error ??= {code: `http_${response.status}`, message: `The server answered ${response.status} ${response.statusText}`.trim()}
  return new ApiError(response.status, {request_id: id, ...error}, Number.isFinite(seconds) && seconds > 0 ? seconds : null)
}

async function reach(url, options) {
  try {
    return await fetch(url, {credentials: 'same-origin', ...options})
  } catch {
    throw new ApiError(0, {code: 'unreachable', message: 'The server does not answer. Is it running, and is the network up?'}, null)
  }
}

function address(path, params) {
  const full = path.startsWith('/v1') ? path : `/v1${path}`
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(params ?? {})) {
    if (value !== null && value !== undefined && value !== '') query.set(name, value)
  }
  return query.size > 0 ? `${full}${full.includes('?') ? '&' : '?'}${query}` : full
}

async function call(method, path, {body, text, params, headers, again = true} = {}) {
  const payload = text ?? (body === undefined ? undefined : JSON.stringify(body))
  const sent = {accept: 'application/json', ...headers}
  if (payload !== undefined) sent['content-type'] = 'application/json'
  if (method !== 'GET') sent['x-restante-csrf'] = session.get()?.csrf ?? ''
  if (workspace.get()) sent['x-workspace-id'] = workspace.get()
  const response = await reach(address(path, params), {
    method, headers: sent, body: payload,
  })
  if (response.ok) return response
  const error = await fault(response)
  if (error.status === 401) session.set(null)
  // Another tab may have signed in again, with another token.
  if (error.code === 'csrf' && again) {
    await checkSession()
    if (session.get()) return call(method, path, {body, text, params, headers, again: false})
  }
  throw error
}

async function parsed(response) {
  const text = await response.text()
  return text === '' ? null : JSON.parse(text)
}

/** Options: `headers`, and `text`, a body that is JSON already (numbers stay as they are written). */
export const api = {
  get: async (path, params, options) => parsed(await call('GET', path, {params, ...options})),
  post: async (path, body, params, options) => parsed(await call('POST', path, {body, params, ...options})),
  patch: async (path, body) => parsed(await call('PATCH', path, {body})),
  del: async path => parsed(await call('DELETE', path)),
  bytes: async (path, params) => (await call('GET', path, {params, headers: {accept: '*/*'}})).arrayBuffer(),
}

export async function checkSession() {
  const response = await reach('/session')
  if (response.ok) session.set(await response.json())
  else if (response.status === 401) session.set(null)
  else throw await fault(response)
}

/** Signs in with `{key}` or `{link}`. */
export async function signIn(proof) {
  const response = await reach('/session', {
    method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(proof),
  })
  if (!response.ok) throw await fault(response)
  workspace.set(null)
  session.set(await response.json())
}

export async function signOut() {
  const response = await reach('/session', {method: 'DELETE', headers: {'x-restante-csrf': session.get()?.csrf ?? ''}})
  if (!response.ok && response.status !== 401) throw await fault(response)
  workspace.set(null)
  session.set(null)
}

/**
 * Reads `path`, again every `every` ms while the tab is seen; a null path reads nothing.
 * Data stays while it is read again and when that fails; only another path drops it.
 */
export function useGet(path, params, {every: pause} = {}) {
  const place = workspace.use()
  const key = path === null ? null : JSON.stringify([place, address(path, params)])
  const [state, setState] = useState({path: null, data: null, error: null, loading: true})
  const latest = useRef(null)
  latest.current = key

  const reload = useCallback(async () => {
    if (key === null) return
    setState(old => ({...(old.path === path ? old : {data: null, error: null}), path, loading: true}))
    let next
    try {
      next = {data: await api.get(path, params), error: null}
    } catch (error) {
      next = {error}
    }
    if (latest.current !== key) return
    setState(old => ({...old, ...next, loading: false}))
  }, [key])

  useEffect(() => { reload() }, [key])
  useEffect(() => {
    if (key === null || !pause) return
    const tick = () => { if (!document.hidden) reload() }
    const timer = setInterval(tick, pause)
    document.addEventListener('visibilitychange', tick)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', tick)
    }
  }, [key, pause])
  useEffect(() => () => { latest.current = undefined }, [])

  if (key === null) return {data: null, error: null, loading: false, reload}
  if (state.path !== path) return {data: null, error: null, loading: true, reload}
  return {data: state.data, error: state.error, loading: state.loading, reload}
}
