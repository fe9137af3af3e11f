// Times and spans for people.
import {cell, html, kept} from './dom.js'

/** `local` or `utc`. */
export const zone = kept('restante.zone', 'local')

const now = cell(Date.now())
setInterval(() => { if (!document.hidden) now.set(Date.now()) }, 1000)
document.addEventListener('visibilitychange', () => now.set(Date.now()))

/** The time in ms, told anew every second. */
export const useNow = () => now.use()

const pad = (n, width = 2) => String(n).padStart(width, '0')

/** `2026-11-30 09:16:04`, in the zone that is chosen. */
export function exact(at, where = zone.get(), {ms = false} = {}) {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return String(at)
  const get = part => (where === 'utc' ? date[`getUTC${part}`]() : date[`get${part}`]())
  const day = `${get('FullYear')}-${pad(get('Month') + 1)}-${pad(get('Date'))}`
  const time = `${pad(get('Hours'))}:${pad(get('Minutes'))}:${pad(get('Seconds'))}`
  return `${day} ${time}${ms ? `.${pad(get('Milliseconds'), 3)}` : ''}`
}

/** `9 min 4 s`: the two greatest units. */
export function duration(ms) {
  if (ms === null || ms === undefined) return '–'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  const units = [['d', 86_400], ['h', 3600], ['min', 60], ['s', 1]]
  const at = units.findIndex(([, size]) => seconds >= size)
  const [name, size] = units[at]
  const rest = units[at + 1]
  const more = rest ? Math.floor((seconds % size) / rest[1]) : 0
  return `${Math.floor(seconds / size)} ${name}${more > 0 ? ` ${more} ${rest[0]}` : ''}`
}

/** `4 min ago`, `in 4 min`. */
export function relative(at, from = Date.now()) {
  const ms = new Date(at).getTime() - from
  const span = Math.abs(ms)
  if (span < 1500) return 'now'
  const text = span < 60_000 ? `${Math.round(span / 1000)} s`
    : span < 3_600_000 ? `${Math.floor(span / 60_000)} min`
      : span < 172_800_000 ? duration(span) : `${Math.floor(span / 86_400_000)} d`
  return ms > 0 ? `in ${text}` : `${text} ago`
}

/** A moment: relative, with the exact time in the title; `exactly` shows both. */
export function Time({at, exactly = false, ms = false}) {
  const from = useNow()
  const where = zone.use()
  if (!at) return html`<span class="dim">–</span>`
  const title = `${exact(at, 'local', {ms: true})} local\n${exact(at, 'utc', {ms: true})} UTC`
  return html`<time dateTime=${at} title=${title}>${exactly
    ? html`${exact(at, where, {ms})}<span class="dim"> ${where === 'utc' ? 'UTC' : ''} (${relative(at, from)})</span>`
    : relative(at, from)}</time>`
}

/** RFC 3339 of what a datetime-local field holds, read in the chosen zone. */
export function fromField(text) {
  if (!text) return null
  const date = new Date(zone.get() === 'utc' ? `${text}Z` : text)
  return Number.isNaN(date.getTime()) ? null : date.toISOString()
}

/** What a datetime-local field shows for a moment. */
export const toField = at => (at && !Number.isNaN(new Date(at).getTime()) ? exact(at).replace(' ', 'T') : '')
