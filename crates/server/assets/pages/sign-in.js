// Signing in with a key, or with the link that the first start prints.
import {html, useEffect, useState} from '../lib/dom.js'
import {checkSession, session, signIn} from '../lib/api.js'
import {navigate} from '../lib/router.js'
import {Form, Text, useForm} from '../parts/form.js'
import {Fault} from '../parts/fault.js'
import {Loading, Page} from '../parts/page.js'

export const title = 'Sign in'

/** Only places of this dashboard: an outsider's link must not lead away. */
const back = query => (/^\/(?![/\\])/.test(query.next ?? '') && !query.next.startsWith('/sign-in') ? query.next : '/')

export default function SignIn({query}) {
  const signed = session.use()
  const [linking, setLinking] = useState(() => location.hash.startsWith('#link='))
  const [fault, setFault] = useState(null)
  const form = useForm({key: ''}, values => signIn({key: values.key.trim()}))

  useEffect(() => {
    const link = linking ? decodeURIComponent(location.hash.slice('#link='.length)) : null
    if (link === null) {
      if (signed === undefined) checkSession().catch(setFault)
      return
    }
    // The link works once; it must not stay in the address or the history.
    history.replaceState(null, '', '/sign-in')
    signIn({link}).catch(setFault).finally(() => setLinking(false))
  }, [])
  useEffect(() => { if (signed && !linking) navigate(back(query), {replace: true}) }, [signed, linking])

  return html`<div class="sign-in"><${Page} title=${title} heading="Restante" sub="Sign in with an API key.">
    ${linking ? html`<${Loading} what="the session of this link"/>` : html`
      ${fault && html`<${Fault} error=${fault}/><p>A sign-in link works once and for a short time. A key always works.</p>`}
      <${Form} form=${form} submit="Sign in">
        <${Text} form=${form} name="key" type="password" label="API key" autofocus placeholder="rst_live_…" hint="The first start prints an admin key. It is sent once; the browser keeps a session cookie, not the key."/>
      <//>`}
  <//></div>`
}
