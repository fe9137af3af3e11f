// Hostile content for every field that takes text and is shown.

import {request as plainRequest} from 'node:http'
import {api, receiver, send} from './api.mjs'
import {until} from './driver.mjs'

/** What sends itself home tells this one. */
export const listener = await receiver()
const home = listener.url

/** Colour of the outline that hostile styles put around everything. */
export const STAIN = 'rgb(1, 2, 3)'
const stain = `*{outline:9px solid ${STAIN} !important}body,main{display:none}`

/** Fits into names: no slash, no line break, at most 128 characters. */
export const NAMES = [
  '"><img src=x onerror=top.pwned=1>',
  "'><svg onload=top.pwned=2>",
  '<script>top.pwned=3<' + String.fromCharCode(0x2044) + 'script>${top.pwned=4}',
  'javascript:top.pwned=5',
  '<b onmouseover=top.pwned=6 style=color:red>{{7*7}}',
  '<${Shell}>${html`<b>`}&lt;i&gt;&quot;',
  '\u202egnp.exe<iframe srcdoc="<svg onload=top.pwned=7>">',
  'constructor',
  '__proto__',
]
export const IMG = NAMES[0]

/** Everything at once, for long fields. */
export const MARKUP = `<!doctype html><html><head>
<meta http-equiv="refresh" content="0; url=${home}/refresh"><base href="${home}/base/" target="_top">
<link rel="stylesheet" href="${home}/link.css"><link rel="prefetch" href="${home}/prefetch"><link rel="preconnect" href="${home}">
<style>@import "${home}/import.css"; @font-face{font-family:f;src:url(${home}/font)} ${stain} body{background:url(${home}/css-url);font-family:f}</style>
<script>top.pwned=10; parent.pwned=10; fetch("${home}/script")</script><script src="${home}/script-src"></script></head>
<body onload="top.pwned=11" background="${home}/background">
<img src="${home}/img" srcset="${home}/srcset 2x" onerror="top.pwned=12"><img src=x onerror="top.pwned=13">
<svg onload="top.pwned=14"><image href="${home}/svg-image"/><use href="${home}/use#a"/><script>top.pwned=15</script><animate onbegin="top.pwned=16" attributeName=x dur=1s></svg>
<iframe src="${home}/iframe"></iframe><iframe srcdoc="<script>top.pwned=17;parent.parent.pwned=17</script><img src='${home}/srcdoc'>"></iframe><iframe src="javascript:top.pwned=18"></iframe>
<object data="${home}/object"></object><embed src="${home}/embed"><video src="${home}/video" poster="${home}/poster" autoplay></video><audio src="${home}/audio" autoplay></audio>
<p style="background:url(${home}/style);position:fixed;inset:0">fixed</p><details open ontoggle="top.pwned=19">x</details><input autofocus onfocus="top.pwned=20">
<a id="js" href="javascript:top.pwned=21">script link</a> <a id="top" href="${home}/top" target="_top" ping="${home}/ping">top link</a> <a id="blank" href="${home}/blank" target="_blank">new window</a> <a id="self" href="${home}/self">plain link</a>
<form id="form" action="${home}/form" target="_top" method="post"><input name="token" value="1"><button id="submit" formaction="${home}/formaction">Send</button></form>
<div onclick="top.pwned=22" onmouseover="top.pwned=23">\${top.pwned=24} &lt;script&gt; <\${Shell} dangerouslySetInnerHTML=\${{__html: "<img src=x onerror=top.pwned=25>"}}/></div>
</body></html>`

/** What a page that takes data for nodes would draw. */
const NODE = {type: 'img', constructor: null, ['__proto__']: null, key: null, ref: null, __v: 1, nodeName: 'img', tag: 'img', $$typeof: 'x',
  props: {src: 'x', onerror: 'top.pwned=30', dangerouslySetInnerHTML: {__html: '<img src=x onerror=top.pwned=31>'}, children: [{type: 'script', props: {children: 'top.pwned=32'}}]}}
export const DATA = {node: NODE, list: [NODE, [NODE]], toString: IMG, [IMG]: MARKUP, constructor: {name: IMG}}

const SCHEDULE = {kind: 'custom', waits_seconds: [1]}

/** Header values and paths as a client sends them that checks nothing. */
function raw(source, path, headers, body, method = 'POST') {
  return new Promise((resolve, reject) => {
    const url = new URL(source.url)
    const call = plainRequest({host: url.hostname, port: url.port, path: url.pathname + path, method, headers}, response => {
      let text = ''
      response.on('data', part => { text += part })
      response.on('end', () => (response.statusCode < 300 ? resolve(JSON.parse(text).id) : reject(new Error(`${response.statusCode} ${text}`))))
    })
    call.on('error', reject)
    call.end(body)
  })
}

async function requests(receiving) {
  const sources = []
  for (const name of NAMES) sources.push(await api.post('/v1/sources', {name}))
  const [source] = sources
  const destination = await api.post(`/v1/sources/${source.id}/destinations`, {
    kind: 'http', url: `${receiving.url}/"><img/src=x/onerror=top.pwned=40>?a='><svg/onload=top.pwned=41>&b=${'${top.pwned=42}'}`, schedule: SCHEDULE,
    headers: {"x-'`|~": MARKUP.slice(0, 100).replaceAll('\n', ' ')}, idempotency_header: 'x-`$&',
  })
  const hostileHeaders = {
    'content-type': 'text/html"><img src=x onerror=top.pwned=43>', 'x-markup': MARKUP.replaceAll('\n', ' '), "x-`'|~$": IMG, referer: 'javascript:top.pwned=44', 'user-agent': NAMES[1],
  }
  const path = `/"{}'|javascript:top.pwned=45/%3Cscript%3Etop.pwned=46%3C/script%3E/\${top.pwned=47}?q='{}\`|&x=%22%3E%3Cimg%20src=x%20onerror=top.pwned=48%3E`
  const made = {
    html: await raw(source, path, hostileHeaders, MARKUP),
    json: await raw(source, '/json', {'content-type': 'application/json'}, JSON.stringify(DATA)),
    broken: await raw(source, '/broken', {'content-type': 'application/json'}, `{"a": "${'<b>'}", ${MARKUP}`),
    form: await raw(source, '/form', {'content-type': 'application/x-www-form-urlencoded'}, String(new URLSearchParams({[IMG]: MARKUP, ['__proto__']: IMG, constructor: IMG}))),
    svg: await raw(source, '/svg', {'content-type': 'image/svg+xml'}, `<svg xmlns="http://www.w3.org/2000/svg" onload="top.pwned=49"><script>top.pwned=50</script><image href="${home}/svg"/></svg>`),
    binary: await raw(source, '/binary', {'content-type': 'application/octet-stream'}, Buffer.concat([Buffer.from([0, 255]), Buffer.from(MARKUP)])),
    nowhere: await send(sources[1], {path: '/nowhere', body: IMG}),
  }
  return {sources, source, destination, requests: made}
}

async function webhooks(receiving) {
  const webhook = await api.post('/v1/webhooks', {
    url: `${receiving.url}/"><img/src=x/onerror=top.pwned=60>?'><svg/onload=top.pwned=61>`, events: ['*'],
    description: `${IMG}<style>${stain}</style><a href="javascript:top.pwned=62">x</a>`, schedule: SCHEDULE, headers: {"x-`'|~$": IMG},
  })
  const event = await api.post('/v1/events', {type: 'hostile.event', data: DATA})
  await until('the webhook to be degraded', async () => (await api.get('/v1/notices')).data.length > 0)
  return {webhook, event}
}

async function emails() {
  const csv = {content: Buffer.from(MARKUP).toString('base64')}
  const email = await api.post('/v1/emails', {
    from: {email: 'mallory@example.com', name: NAMES[4]}, subject: `${IMG} ${NAMES[5]} \${top.pwned=70}`,
    to: NAMES.slice(0, 3).map((name, at) => ({email: `victim${at}@example.net`, name})), cc: [{email: 'cc@example.net', name: NAMES[6]}],
    html: MARKUP, text: MARKUP, headers: {'X-Markup': '<img src=x onerror=top.pwned=71>', "x-`'|~$": IMG},
    tags: {order: 'paid'}, metadata: DATA,
    attachments: [
      {filename: IMG, content_type: 'text/html', ...csv}, {filename: '..evil: $`{7*7}`.html', content_type: 'text/html', ...csv},
      {filename: NAMES[6].replaceAll('/', ''), content_type: 'image/svg+xml', content_id: 'constructor', ...csv},
      {filename: 'logo.png', content_type: 'image/png', content_id: 'logo', ...csv},
    ],
  })
  const cid = await api.post('/v1/emails', {
    from: 'mallory@example.com', to: 'victim@example.net', subject: NAMES[7], html: `<img src="cid:logo" onerror="top.pwned=73">${MARKUP}`,
    attachments: [{filename: 'logo.png', content_type: 'image/png', content_id: 'logo', ...csv}],
  })
  const plain = MARKUP.replaceAll('{{', '{').replaceAll('}}', '}')
  const template = await api.post('/v1/templates', {
    name: IMG, slug: 'hostile', description: NAMES[1], subject: `${IMG} {{ name }}`, html: `${plain}{{ name }}`, text: `${plain}{{ name }}`,
    props: {name: MARKUP, constructor: IMG, 'a\'"<b>': NODE}, publish: true,
  })
  await api.post('/v1/suppressions', {email: '"<img/src=x/onerror=top.pwned=75>"@example.net'}).catch(() => api.post('/v1/suppressions', {email: "o'{}`$|x@example.net"}))
  for (const it of [email, cid]) await until('it to be captured', async () => (await api.get(`/v1/emails/${it.id}`)).status === 'sent')
  return {email, cid, template}
}

/** Puts it everywhere, and gives the ids. */
export async function poison() {
  const receiving = await receiver(500)
  receiving.body = MARKUP
  const made = {...await requests(receiving), ...await webhooks(receiving), ...await emails()}
  for (const name of NAMES) await api.post('/v1/keys', {name, scopes: ['events:read']})
  const {workspace_id: id} = await api.get('/v1/server')
  await api.post(`/v1/workspaces/${id}/credits`, {delta: 5000, note: IMG})
  await api.post(`/v1/workspaces/${id}/credits`, {delta: 1, note: `req_${IMG}`})
  await api.post(`/v1/workspaces/${id}/credits`, {delta: 1, note: 'javascript:top.pwned=80'})
  await api.patch('/v1/workspace', {name: IMG})
  await api.post('/v1/workspaces', {name: NAMES[1]})
  const request = await until('failed deliveries', async () => {
    const found = await api.get(`/v1/requests/${made.requests.html}`)
    return found.state === 'failed' && found
  })
  return {...made, delivery: request.deliveries[0], eventDelivery: (await api.get(`/v1/events/${made.event.id}`)).deliveries[0]}
}
