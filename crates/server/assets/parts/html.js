// Somebody else's HTML, in a frame inside a frame where no script runs and nothing leaves.
import {html, useEffect, useRef, useState} from '../lib/dom.js'

/** `markup` is shown as a mail reader would, without remote content. */
export function SafeHtml({markup, title}) {
  const frame = useRef(null)
  const [ready, setReady] = useState(false)
  useEffect(() => {
    // The frame's origin is opaque, so no target origin can be named; what is sent is not secret from it.
    if (ready) frame.current.contentWindow.postMessage({html: markup}, '*')
  }, [markup, ready])
  return html`<iframe ref=${frame} class="safe-html" sandbox="allow-scripts" src="/frame" title=${title} onLoad=${() => setReady(true)}/>`
}
