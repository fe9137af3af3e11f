// The dashboard's entry: session, shell, and which page an address means.
import {checkSession, session, workspace} from './lib/api.js'
import {Component, html, render, useEffect, useState} from './lib/dom.js'
import {useKeys} from './lib/keys.js'
import {navigate, useRoute} from './lib/router.js'
import {Questions} from './parts/dialog.js'
import {Fault} from './parts/fault.js'
import {Loading} from './parts/page.js'
import {Help, Shell} from './parts/shell.js'
import {Toasts} from './parts/toast.js'

/** First part of the path → its list and, with an id, its single thing. */
const PAGES = {
  '': ['overview'], sources: ['sources', 'source'], requests: ['requests', 'request'], deliveries: ['deliveries', 'delivery'],
  events: ['events', 'event'], webhooks: ['webhooks', 'webhook'], emails: ['emails', 'email'], templates: ['templates', 'template'],
  domains: ['domains'], suppressions: ['suppressions'], keys: ['keys'], settings: ['settings'], credits: ['credits'], notices: ['notices'],
  'sign-in': ['sign-in'],
}
const GO = {o: '/', r: '/requests', s: '/sources', d: '/deliveries', e: '/events', w: '/webhooks', m: '/emails'}

/** Ids and slugs go into paths of calls: nothing else may, or an address could make a page call something else. */
const ID = /^[\w-]+$/

const moduleOf = parts => (parts.slice(1).every(it => ID.test(it)) && PAGES[parts[0] ?? '']?.[parts.length > 1 ? parts.length - 1 : 0]) || 'not-found'

/** What breaks in one page must not take the others along. */
class Guard extends Component {
  constructor() {
    super()
    this.state = {error: null}
  }
  componentDidCatch(error) {
    console.error(error)
    this.setState({error})
  }
  render() {
    if (!this.state.error) return this.props.children
    return html`<h1>This page broke</h1><${Fault} error=${{message: String(this.state.error.message ?? this.state.error), code: 'dashboard'}} retry=${() => this.setState({error: null})}/>`
  }
}

function Routed({path, parts, query}) {
  const name = moduleOf(parts)
  const [loaded, setLoaded] = useState({name: null, page: null, error: null})
  const load = () => import(`./pages/${name}.js`).then(
    module => setLoaded({name, page: module.default, error: null}),
    error => setLoaded({name, page: null, error}),
  )
  useEffect(() => { load() }, [name])
  if (loaded.name !== name) return html`<${Loading} what=${`the page ${name}`}/>`
  if (loaded.error) {
    return html`<h1>The page ${name} did not load</h1>
      <${Fault} error=${{message: 'The server may have been updated meanwhile: load the dashboard again.', code: String(loaded.error.message)}} retry=${() => location.reload()}/>`
  }
  return html`<${loaded.page} key=${path} id=${parts[1]} query=${query} path=${path}/>`
}

function App() {
  const route = useRoute()
  const signed = session.use()
  const place = workspace.use()
  const [fault, setFault] = useState(null)
  const [help, showHelp] = useState(false)
  const signingIn = route.path === '/sign-in'
  const check = () => checkSession().then(() => setFault(null), setFault)

  useEffect(() => { check() }, [])
  useEffect(() => {
    if (signed === null && location.pathname !== '/sign-in') navigate(`/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`, {replace: true})
  }, [signed, signingIn])
  useKeys({
    '?': ['This help', () => showHelp(true)],
    '/': ['Search: any id, or a text in bodies', () => { const box = document.querySelector('#search'); if (!box) return false; box.focus(); box.select() }],
    ...(signed ? Object.fromEntries(Object.entries(GO).map(([key, path]) => [`g ${key}`, [`Go to ${path === '/' ? 'the overview' : path.slice(1)}`, () => navigate(path)]])) : {}),
  })

  const page = html`<${Guard} key=${`${place}${route.path}`}><${Routed} ...${route}/><//>`
  return html`
    ${signed === undefined && !signingIn
      ? html`<main class="alone"><${Fault} error=${fault} retry=${check}/>${!fault && html`<${Loading} what="the session"/>`}</main>`
      : signingIn || !signed ? html`<main class="alone" id="main">${signingIn && page}</main>`
        : html`<${Shell} path=${route.path} onHelp=${() => showHelp(true)}>${page}<//>`}
    <${Questions}/><${Toasts}/>
    ${help && html`<${Help} onClose=${() => showHelp(false)}/>`}`
}

const root = document.getElementById('app')
root.replaceChildren()
render(html`<${App}/>`, root)
