// Numbers and words for people.
const GROUPED = new Intl.NumberFormat('en-US', {maximumFractionDigits: 1})

export const count = n => (n === null || n === undefined ? '–' : GROUPED.format(n))

export function bytes(n) {
  if (n === null || n === undefined) return '–'
  if (n < 1024) return `${n} B`
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`
  return `${(n / 1024 / 1024).toFixed(1)} MiB`
}

/** `plural(2, 'delivery', 'deliveries')` → `2 deliveries`. */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`

export const percent = share => (share === null || share === undefined ? '–' : `${GROUPED.format(share * 100)} %`)

/** A word as people write it: `endpoint_paused` → `endpoint paused`. */
export const words = text => String(text).replaceAll('_', ' ')

/** Quoted for a POSIX shell. */
export const quoted = text => (/^[A-Za-z0-9_./:@%+=,-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`)
