// Names of sources, and the destinations of one.
import {html} from '../lib/dom.js'
import {useGet} from '../lib/api.js'
import {duration} from '../lib/time.js'
import {Link} from '../lib/router.js'
import {Id} from './id.js'

const ALL = {limit: 100}

/** Sources by id; empty while they are read. */
export function useSources() {
  const {data} = useGet('/sources', ALL)
  return Object.fromEntries((data?.data ?? []).map(it => [it.id, it]))
}

/** Destinations of a source by id. */
export function useDestinations(source) {
  const {data} = useGet(source ? `/sources/${source}/destinations` : null, ALL)
  return Object.fromEntries((data?.data ?? []).map(it => [it.id, it]))
}

export const SourceName = ({of, sources, link = true}) => (sources[of]
  ? link ? html`<${Link} href=${`/sources/${of}`}>${sources[of].name}<//>` : sources[of].name
  : html`<${Id} of=${of} link=${link}/>`)

/** A schedule in words. */
export function schedule(it) {
  if (it.kind === 'custom') return `custom: ${it.waits_seconds.map(wait => duration(wait * 1000)).join(', ')}${it.jitter ? ` ± ${it.jitter * 100} %` : ''}`
  if (it.kind === 'quadratic') return `quadratic, ${it.attempts} attempts`
  return it.kind
}
