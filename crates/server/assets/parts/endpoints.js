// Names of sources, and the destinations of one.
import {html, useEffect, useState} from '../lib/dom.js'
import {api, useGet} from '../lib/api.js'
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
  return useAllDestinations(source ? [source] : [])
}

/** Sources whose destinations are looked up for their names: more would be too many calls. */
const LOOKED_UP = 20

/** Destinations of several sources by id; read once. */
export function useAllDestinations(sources) {
  const [all, setAll] = useState({})
  const wanted = [...new Set(sources)].sort().slice(0, LOOKED_UP).join()
  useEffect(() => {
    let gone = false
    for (const source of wanted.split(',').filter(Boolean)) {
      api.get(`/sources/${encodeURIComponent(source)}/destinations`, ALL).then(({data}) => {
        if (!gone) setAll(old => ({...old, ...Object.fromEntries(data.map(it => [it.id, it]))}))
      }, () => { /* A name is missing: its id is shown. */ })
    }
    return () => { gone = true }
  }, [wanted])
  return all
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
