// A webhook's settings, as one writes them in a form.
import {wrong} from './fields.js'

export function scheduleText(schedule) {
  if (!schedule) return ''
  if (schedule.kind === 'quadratic') return `quadratic:${schedule.attempts}`
  if (schedule.kind !== 'custom') return schedule.kind
  return schedule.waits_seconds.join(',') + (schedule.jitter ? ` jitter ${schedule.jitter}` : '')
}

function readSchedule(text) {
  const written = text.trim()
  if (written === '') return null
  if (written === 'standard') return {kind: 'standard'}
  const quadratic = written.match(/^quadratic(?::(\d+))?$/)
  if (quadratic) return quadratic[1] ? {kind: 'quadratic', attempts: Number(quadratic[1])} : {kind: 'quadratic'}
  const [waits, jitter = '0'] = written.split(/\s*jitter\s*/)
  const numbers = waits.split(/[\s,]+/).filter(Boolean).map(Number)
  if ([...numbers, Number(jitter)].some(Number.isNaN)) {
    throw wrong('schedule', 'Write standard, quadratic:5, or the waits in seconds, such as 5,300,1800 jitter 0.2')
  }
  return {kind: 'custom', waits_seconds: numbers, jitter: Number(jitter)}
}

/** Stands for a header's value that is set: values are never read back. */
const KEPT = '(kept)'

function readHeaders(text) {
  const headers = {}
  for (const line of text.split('\n').filter(it => it.trim() !== '')) {
    const colon = line.indexOf(':')
    if (colon < 1) throw wrong('headers', 'One on a line, written Name: value')
    const value = line.slice(colon + 1).trim()
    headers[line.slice(0, colon).trim()] = value === KEPT ? null : value
  }
  return headers
}

export const WEBHOOK_FIELDS = [
  {name: 'url', label: 'URL', example: 'https://customer.example.com/hooks', hint: 'https and public, unless the server allows more'},
  {name: 'events', label: 'Events', kind: 'lines', example: 'order.paid', hint: 'One on a line: order.paid, order.* for all below it, or *'},
  {name: 'description', label: 'Description', hint: 'For people, at most 256 characters'},
  {name: 'schedule', label: 'Schedule', show: scheduleText, read: readSchedule, example: 'standard',
    hint: 'standard (8 attempts in about 27 h), quadratic:5, or the waits in seconds: 5,300,1800 jitter 0.2'},
  {name: 'headers', label: 'Headers', kind: 'area', read: readHeaders, example: 'X-Tenant: 7',
    show: headers => Object.keys(headers ?? {}).map(name => `${name}: ${KEPT}`).join('\n'), hint: 'One on a line, written Name: value'},
  {name: 'max_in_flight', label: 'Attempts at the same time', kind: 'number', example: '64', hint: '1 to 1,000'},
  {name: 'rate_per_second', label: 'Attempts per second', kind: 'number', hint: '0.1 to 10,000; empty: as many as there are'},
  {name: 'timeout_seconds', label: 'Timeout in seconds', kind: 'number', example: '15', hint: '1 to 60, from name lookup to the end of the response head'},
]
