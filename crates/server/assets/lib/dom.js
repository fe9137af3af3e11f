// Rendering: Preact with htm templates in place of a build step.
import {Component, Fragment, h, render} from '../vendor/preact.js'
import {useCallback, useEffect, useMemo, useReducer, useRef, useState} from '../vendor/preact-hooks.js'
import htm from '../vendor/htm.js'

export const html = htm.bind(h)
export {Component, Fragment, render, useCallback, useEffect, useMemo, useReducer, useRef, useState}

/** A value that components can follow: `get`, `set`, and `use` as a hook. */
export function cell(value) {
  const followers = new Set()
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return
      value = next
      for (const follow of [...followers]) follow()
    },
    follow(follower) {
      followers.add(follower)
      return () => followers.delete(follower)
    },
    use() {
      const [, redraw] = useReducer(n => n + 1, 0)
      useEffect(() => {
        const seen = value
        followers.add(redraw)
        if (!Object.is(seen, value)) redraw()
        return () => followers.delete(redraw)
      }, [])
      return value
    },
  }
}

/** A cell that survives reloads. Storage may be refused: then it lasts as long as the page. */
export function kept(name, initial) {
  let value = initial
  try { value = localStorage.getItem(name) ?? initial } catch { /* refused */ }
  const it = cell(value)
  it.follow(() => {
    try { localStorage.setItem(name, it.get()) } catch { /* refused */ }
  })
  return it
}
