// Signing in with a key, or with the link that the first start prints.
import {checkSession, Fault, html, Loading, navigate, Page, session, signIn, useEffect, useState} from './all.js'
import {Fields} from './fields.js'

export const title = 'Sign in'

const KEY = [{name: 'key', label: 'API key', kind: 'secret', always: true, example: 'rst_live_…', hint: 'The first start prints an admin key. It is sent once; the browser keeps a session cookie, not the key.'}]

/** Only places of this dashboard: an outsider's link must not lead away. What counts is how browsers read it. */
function back({next = '/'}) {
  const url = URL.canParse(next, location.origin) ? new URL(next, location.origin) : location
  const ours = url.origin === location.origin && !url.pathname.startsWith('//') && url.pathname !== '/sign-in'
  return ours ? url.pathname + url.search : '/'
}

export default function SignIn({query}) {
  const signed = session.use()
  const [linking, setLinking] = useState(() => location.hash.startsWith('#link='))
  const [fault, setFault] = useState(null)

  useEffect(() => {
    const link = linking ? location.hash.slice('#link='.length) : null
    if (link === null) {
      if (signed === undefined) checkSession().catch(setFault)
      return
    }
    // The link works once; it must not stay in the address or the history.
    history.replaceState(null, '', '/sign-in')
    signIn({link}).catch(setFault).finally(() => setLinking(false))
  }, [])
  useEffect(() => { if (!linking) document.querySelector('input')?.focus() }, [linking])
  useEffect(() => { if (signed && !linking) navigate(back(query), {replace: true}) }, [signed, linking])

  return html`<div class="sign-in"><${Page} title=${title} heading="Restante" sub="Sign in with an API key.">
    ${linking ? html`<${Loading} what="the session of this link"/>` : html`
      ${fault && html`<${Fault} error=${fault}/><p>A sign-in link works once, until the server is started again. A key always works.</p>`}
      <${Fields} fields=${KEY} submit="Sign in" run=${({key}) => signIn({key: key.trim()})}/>`}
  <//></div>`
}
