// The keyboard: pages say which keys they answer to.
import {useEffect, useRef} from './dom.js'

const layers = []
let prefix = null
let prefixTimer = null

const typing = target => target.closest?.('input, textarea, select, [contenteditable]')

addEventListener('keydown', event => {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return
  if (event.key !== 'Escape' && typing(event.target)) return
  if (document.querySelector('dialog[open]')) return
  const key = prefix ? `${prefix} ${event.key}` : event.key
  clearTimeout(prefixTimer)
  prefix = null
  if (key === 'g') {
    prefix = 'g'
    prefixTimer = setTimeout(() => { prefix = null }, 1200)
    return
  }
  if (event.key === 'Enter' && event.target.closest?.('a, button, summary')) return
  for (const layer of [...layers].reverse()) {
    const entry = layer.current[key]
    if (entry && entry[1](event) !== false) {
      event.preventDefault()
      return
    }
  }
})

/** `{key: [what it does, action]}`; an action that returns false leaves the key to others. Later layers win. */
export function useKeys(keys) {
  const layer = useRef(keys)
  layer.current = keys
  useEffect(() => {
    layers.push(layer)
    return () => { layers.splice(layers.indexOf(layer), 1) }
  }, [])
}

/** `[key, what it does]` of all that is heard now. */
export function heard() {
  const all = new Map()
  for (const layer of layers) for (const [key, [what]] of Object.entries(layer.current)) if (what) all.set(key, what)
  return [...all]
}
