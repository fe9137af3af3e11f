// A list that follows what happens, without moving under the reader's eyes.
import {html, useEffect, useRef, useState} from '../lib/dom.js'
import {api} from '../lib/api.js'
import {plural} from '../lib/format.js'
import {useLive} from '../lib/live.js'
import {Fault} from './fault.js'
import {Live} from './live.js'
import {Loading} from './page.js'

const AGAIN_MS = 1000
const SAY_MS = 5000
/** Farther down than this, the reader reads: new rows wait. */
const TOP_PX = 60

/**
 * The newest page of `path` with `params`, read again when `kinds` of changes come. While `held` (paused, a row is
 * selected, or the page is scrolled) known rows are brought up to date and new ones are only counted.
 * Gives `{rows, page, fresh, show, said, status, error, loading, reload}`.
 */
export function useTail(path, params, {kinds, on = true, held = false, pause = AGAIN_MS}) {
  const key = JSON.stringify([path, params])
  const [state, setState] = useState({key: null, rows: null, page: null, waiting: null, error: null})
  const [said, say] = useState('')
  const reader = useRef({held, timer: null, last: 0, heard: 0, busy: false})
  reader.current.held = held
  reader.current.key = key

  const read = async follow => {
    const it = reader.current
    if (it.busy) return later()
    it.busy = true
    let page = null
    let error = null
    try { page = await api.get(path, params) } catch (caught) { error = caught }
    it.busy = false
    it.last = Date.now()
    if (it.key !== key) return
    setState(old => {
      if (error) return {...old, key, rows: old.key === key ? old.rows : null, error}
      const still = !follow && old.key === key && old.rows && (it.held || scrollY > TOP_PX || !on)
      if (!still) {
        const known = old.key === key && old.rows ? new Set(old.rows.map(row => row.id)) : null
        return {key, rows: page.data, page, waiting: null, error: null, born: known ? new Set(page.data.filter(row => !known.has(row.id)).map(row => row.id)) : new Set()}
      }
      const now = new Map(page.data.map(row => [row.id, row]))
      return {...old, rows: old.rows.map(row => now.get(row.id) ?? row), waiting: page, error: null}
    })
  }
  const later = () => {
    const it = reader.current
    if (it.timer !== null) return
    it.timer = setTimeout(() => {
      it.timer = null
      if (!document.hidden) latest.current(false)
    }, Math.max(200, it.last + pause - Date.now()))
  }
  const latest = useRef(read)
  latest.current = read
  useEffect(() => { latest.current(true) }, [key])
  useEffect(() => () => clearTimeout(reader.current.timer), [])

  const status = useLive({}, on ? events => { if (events.some(it => it.kind === 'lagged' || kinds.includes(it.kind))) later() } : null)
  const shown = state.key === key ? state : {rows: null}
  const known = new Set((shown.rows ?? []).map(row => row.id))
  const fresh = shown.waiting ? shown.waiting.data.filter(row => !known.has(row.id)).length : 0
  const more = fresh > 0 && fresh === shown.waiting.data.length && shown.waiting.has_more

  // A screen reader hears of new rows now and then, not of each.
  useEffect(() => {
    const born = shown.born?.size ?? 0
    reader.current.heard += born
    const timer = setTimeout(() => {
      const n = fresh > 0 ? fresh : reader.current.heard
      if (n > 0) say(fresh > 0 ? `${plural(n, 'new row')} waiting` : `${plural(n, 'new row')} at the top`)
      reader.current.heard = 0
    }, SAY_MS)
    return () => clearTimeout(timer)
  }, [fresh, shown.born])

  return {
    rows: shown.rows, page: shown.page, born: shown.born, fresh: more ? `${fresh}+` : fresh, said, status, error: shown.error,
    loading: shown.rows === null && !shown.error, reload: () => read(true),
    show: () => { scrollTo(0, 0); setState(old => (old.waiting ? {...old, rows: old.waiting.data, page: old.waiting, waiting: null, born: new Set()} : old)) },
  }
}

/** Whether a tail is live; `old`: another page than the newest is shown. */
export const TailState = ({tail, old}) => (old ? html`<span class="dim">An older page: not live</span>` : html`<${Live} status=${tail.status}/>`)

/** What stands above the rows of a tail: faults, waiting, and the rows that were held back. */
export function TailHead({tail, what, onShow = tail.show}) {
  return html`<p class="unseen" role="status" aria-live="polite">${tail.said}</p>
    <${Fault} error=${tail.error} retry=${tail.reload}/>
    ${tail.loading && html`<${Loading} what=${what}/>`}
    ${tail.fresh !== 0 && html`<p class="fresh-bar"><button type="button" class="primary" onClick=${onShow}>↑ ${tail.fresh} new</button></p>`}`
}
