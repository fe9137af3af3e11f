// A workspace as it is on an ordinary day: a shop, its customers' webhooks, its mail. Nothing in it is hostile.

import {api, receiver, send} from './api.mjs'
import {until} from './driver.mjs'

const JSON_TYPE = {'content-type': 'application/json'}
const order = (number, total) => JSON.stringify({event: 'order.paid', order: {number, total, currency: 'EUR', customer: {name: 'Ada Lovelace', city: 'London'}, items: [{sku: 'BK-12', quantity: 1}, {sku: 'PN-03', quantity: 4}]}})

async function inbound(fine, down) {
  const shop = await api.post('/v1/sources', {name: 'shop'})
  const payments = await api.post('/v1/sources', {name: 'payments'})
  await api.post('/v1/sources', {name: 'inbox'})
  const schedule = {kind: 'custom', waits_seconds: [1], jitter: 0}
  await api.post(`/v1/sources/${shop.id}/destinations`, {kind: 'http', url: `${fine.url}/orders`})
  await api.post(`/v1/sources/${shop.id}/destinations`, {kind: 'http', url: `${down.url}/analytics`, schedule: {kind: 'custom', waits_seconds: [1, 1800, 7200], jitter: 0.2}, headers: {'X-Team': 'data'}})
  await api.post(`/v1/sources/${payments.id}/destinations`, {kind: 'http', url: `${down.url}/ledger`, schedule, idempotency_header: true})
  await api.post(`/v1/sources/${payments.id}/destinations`, {kind: 'cli', url: 'http://localhost:3000/payments'})
  const requests = []
  for (let number = 1040; number < 1046; number += 1) requests.push(await send(shop, {path: '/paid', headers: {...JSON_TYPE, 'x-shop-topic': 'orders/paid', 'x-shop-signature': 'sha256=5d41402abc4b2a76b9719d911017c592'}, body: order(number, 17.5 + number)}))
  for (const kind of ['succeeded', 'refunded']) await send(payments, {path: `/charges?kind=${kind}`, headers: JSON_TYPE, body: `{"charge":"ch_1042","kind":"${kind}"}`})
  const broken = await send(shop, {path: '/paid', headers: JSON_TYPE, body: '{"order": 1046,\n "total": }'})
  return {shop, payments, request: requests.at(-1), broken}
}

async function outbound(fine, down) {
  const good = await api.post('/v1/webhooks', {url: `${fine.url}/hooks`, events: ['order.*', 'invoice.sent'], description: 'Bookshop on the corner'})
  const bad = await api.post('/v1/webhooks', {url: `${down.url}/hooks/restante`, events: ['order.*'], description: 'Grace & Sons, warehouse', schedule: {kind: 'custom', waits_seconds: [1, 3600], jitter: 0}})
  const paused = await api.post('/v1/webhooks', {url: `${fine.url}/old-shop`, events: ['order.created'], description: 'The old shop'})
  await api.patch(`/v1/webhooks/${paused.id}`, {status: 'paused'})
  let event = null
  for (const [at, type] of ['order.created', 'order.paid', 'order.shipped', 'invoice.sent'].entries()) {
    event = await api.post('/v1/events', {type, data: {order: 1042, total: '17.50', currency: 'EUR', step: at + 1}})
    if (type === 'order.paid') await until('the webhook to be degraded', async () => (await api.get('/v1/notices')).data.length > 0)
  }
  const {data: events} = await api.get('/v1/events?type=order.paid')
  return {good, bad, paused, event: events[0].id}
}

async function mail() {
  const shop = {email: 'shop@example.com', name: 'The shop'}
  const template = await api.post('/v1/templates', {
    name: 'Receipt', slug: 'receipt', description: 'Sent when an order is paid', subject: 'Your order {{ order }}', props: {name: 'customer', order: 1042}, publish: true,
    html: '<h1 style="font-family: Georgia; color: #20507a">Thank you, {{ name }}</h1>\n<p style="font-family: Georgia">Your order <b>{{ order }}</b> is paid. It leaves us tomorrow.</p>', text: 'Thank you, {{ name }}\n\nYour order {{ order }} is paid. It leaves us tomorrow.',
  })
  await api.post(`/v1/templates/${template.id}/content`, {subject: 'Order {{ order }} is paid', html: '<h1 style="font-family: Georgia; color: #20507a">Hello {{ name }}</h1>\n<p style="font-family: Georgia">Order <b>{{ order }}</b> is paid.</p>', text: 'Hello {{ name }}', props: {name: 'customer', order: 1042}})
  await api.post('/v1/suppressions', {email: 'gone@example.net'})
  await api.post('/v1/domains', {name: 'example.com'})
  const email = await api.post('/v1/emails', {
    from: shop, to: [{email: 'ada@example.net', name: 'Ada Lovelace'}, 'gone@example.net'], template: {id: 'receipt', props: {name: 'Ada', order: 1042}}, tags: {order: '1042'},
    attachments: [{filename: 'invoice 1042.csv', content_type: 'text/csv', content: Buffer.from('item,price\nbook,12.00\npens,5.50\n').toString('base64')}],
  })
  await api.post('/v1/emails', {from: shop, to: 'grace@example.org', subject: 'Your parcel is on its way', text: 'It arrives on Thursday.'})
  await api.post('/v1/emails', {from: shop, to: 'ada@example.net', subject: 'How do you like the book?', text: 'Tell us.', scheduled_at: new Date(Date.now() + 3 * 86_400_000).toISOString()})
  return {email, template}
}

/** Fills the workspace and waits until it is at rest. Gives `Page → address`, each page once. */
export async function stock() {
  const [fine, down] = [await receiver(200), await receiver(503)]
  down.body = 'out of service'
  const {shop, payments, request, broken} = await inbound(fine, down)
  const {good, bad, paused, event} = await outbound(fine, down)
  const {email, template} = await mail()
  await api.post('/v1/keys', {name: 'worker', scopes: ['events:publish']})
  const gone = await api.post('/v1/keys', {name: 'laptop of Ada', scopes: ['requests:read', 'deliveries:read']})
  await api.post(`/v1/keys/${gone.id}/revoke`)
  await api.patch('/v1/workspace', {name: 'Bookshop', owners: ['ada@example.com']})
  const {workspace_id: id} = await api.get('/v1/server')
  await api.post(`/v1/workspaces/${id}/credits`, {delta: 1000, note: 'for November'})
  const [failed] = await until('payments to have failed', async () => {
    const {data} = await api.get(`/v1/deliveries?state=failed&source=${payments.id}`)
    return data.length === 2 && data
  })
  await until('analytics to wait', async () => (await api.get(`/v1/requests/${request}`)).deliveries.some(it => it.attempts_used === 2))
  await until('mail to be at rest', async () => (await api.get(`/v1/emails/${email.id}`)).sent_at)
  await api.post(`/v1/deliveries/${failed.id}/retry`)
  const pages = {
    overview: '/', sources: '/sources', source: `/sources/${shop.id}`, requests: '/requests', request: `/requests/${request}`, 'request-broken': `/requests/${broken}`,
    deliveries: '/deliveries', delivery: `/deliveries/${failed.id}`, events: '/events', event: `/events/${event}`,
    webhooks: '/webhooks', emails: '/emails', templates: '/templates', template: `/templates/${template.id}`, 'template-versions': `/templates/${template.id}?tab=versions`,
    domains: '/domains', suppressions: '/suppressions', keys: '/keys', settings: '/settings', credits: '/credits', notices: '/notices', 'no-such-page': '/nowhere',
    webhook: `/webhooks/${good.id}`, 'webhook-degraded': `/webhooks/${bad.id}`, 'webhook-paused': `/webhooks/${paused.id}?tab=outage`,
  }
  for (const tab of ['deliveries', 'outage', 'test', 'settings']) pages[`webhook-${tab}`] = `/webhooks/${bad.id}?tab=${tab}`
  for (const tab of ['recipients', 'html', 'text', 'headers', 'attachments', 'source', 'events']) pages[`email-${tab}`] = `/emails/${email.id}?tab=${tab}`
  return pages
}
