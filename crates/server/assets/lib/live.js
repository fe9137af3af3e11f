// What happens, as it happens: one stream for all who follow.
import {api, session, workspace} from './api.js'
import {cell, useEffect, useRef} from './dom.js'

const KINDS = ['request', 'event', 'email', 'delivery', 'lagged']
/** Changes are handed on together, so that a burst is drawn once. */
const GATHER_MS = 200
const POLL_MS = 5000
/** A browser allows few connections to one host: hidden tabs give theirs back. */
const HIDDEN_MS = 20_000

const status = cell({state: 'off', why: null, nextAt: null})
const handlers = new Set()
let source = null
let timer = null
let hiddenTimer = null
let failures = 0
let missed = false
let gathered = []
let gatherTimer = null

function hand(events) {
  for (const handler of [...handlers]) handler.current(events)
}

function gather(event) {
  gathered.push(event)
  gatherTimer ??= setTimeout(() => {
    gatherTimer = null
    hand(gathered.splice(0))
  }, GATHER_MS)
}

function stop() {
  source?.close()
  source = null
  clearTimeout(timer)
  clearInterval(timer)
  timer = null
}

function start() {
  stop()
  if (handlers.size === 0 || session.get() === null) return status.set({state: 'off', why: null, nextAt: null})
  if (workspace.get()) {
    status.set({state: 'polling', why: `Another workspace: asks every ${POLL_MS / 1000} s`, nextAt: null})
    timer = setInterval(() => { if (!document.hidden) hand([{kind: 'lagged', data: {missed: null}}]) }, POLL_MS)
    return
  }
  if (failures === 0) status.set({state: 'connecting', why: null, nextAt: null})
  const stream = new EventSource('/v1/stream')
  source = stream
  let opened = false
  stream.onopen = () => {
    opened = true
    failures = 0
    status.set({state: 'live', why: null, nextAt: null})
    if (missed) gather({kind: 'lagged', data: {missed: null}})
    missed = false
  }
  stream.onerror = () => {
    if (source !== stream) return
    stop()
    missed = true
    lost(opened ? 'The connection was lost' : 'The server does not answer')
  }
  for (const kind of KINDS) {
    stream.addEventListener(kind, event => gather({kind, data: JSON.parse(event.data)}))
  }
}

/** EventSource does not tell a refusal from a dead line: a plain call does. */
async function lost(why) {
  failures += 1
  const wait = Math.min(8000, 1000 * 2 ** (failures - 1))
  status.set({state: 'reconnecting', why, nextAt: Date.now() + wait})
  timer = setTimeout(start, wait)
  if (failures !== 2) return
  try {
    await api.get('/requests', {limit: 1})
  } catch (error) {
    if (error.status !== 401 && error.status !== 403) return
    stop()
    status.set({state: 'off', why: error.message, nextAt: null})
  }
}

document.addEventListener('visibilitychange', () => {
  clearTimeout(hiddenTimer)
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      if (!source) return
      stop()
      missed = true
      status.set({state: 'off', why: 'The tab is hidden', nextAt: null})
    }, HIDDEN_MS)
  } else if (!source && handlers.size > 0) {
    failures = 0
    start()
  }
})
workspace.follow(() => { if (handlers.size > 0) start() })
session.follow(() => { if (session.get() === null) stop() })

/**
 * Calls `handler` with a list of `{kind, data}`; kind `lagged` means: something was missed, read again.
 * With `source`, requests of other sources are left out. A null handler follows nothing.
 */
export function useLive({source: wanted} = {}, handler) {
  const latest = useRef(null)
  latest.current = events => {
    const mine = wanted ? events.filter(it => it.kind !== 'request' || it.data.source_id === wanted) : events
    if (mine.length > 0) handler?.(mine)
  }
  useEffect(() => {
    if (!handler) return
    handlers.add(latest)
    if (!source && !timer) start()
    return () => {
      handlers.delete(latest)
      // The next page usually follows too: do not hang up between the two.
      setTimeout(() => { if (handlers.size === 0) start() }, 1000)
    }
  }, [handler === null])
  return status.use()
}
