// The search box: whatever id one has at hand opens what it names.

import {api, receiver, send} from './api.mjs'
import {end, go, open, path, query, same, sees, settled, step, until} from './driver.mjs'

const refusing = await receiver(500)
const page = await open()

/** One of each kind of thing that has an id. */
async function stock() {
  const source = await api.post('/v1/sources', {name: 'shop'})
  const destination = await api.post(`/v1/sources/${source.id}/destinations`, {
    kind: 'http', url: refusing.url, schedule: {kind: 'custom', waits_seconds: [3600]},
  })
  const request = await send(source, {body: '{"order":1042}'})
  const webhook = await api.post('/v1/webhooks', {url: refusing.url, events: ['*'], schedule: {kind: 'custom', waits_seconds: [1]}})
  const event = await api.post('/v1/events', {type: 'order.paid', data: {}})
  const failed = await until('the webhook to be degraded', async () =>
    (await api.get('/v1/notices')).data.length > 0 && (await api.get(`/v1/events/${event.id}`)).deliveries.find(it => it.state === 'failed'))
  await api.post(`/v1/webhooks/${webhook.id}/replay`, {since: event.created_at})
  const email = await api.post('/v1/emails', {from: 'shop@example.com', to: 'ada@example.net', subject: 'Hello', text: 'Hello'})
  const template = await api.post('/v1/templates', {name: 'Welcome', slug: 'welcome', subject: 'Welcome', text: 'Hello'})
  const domain = await api.post('/v1/domains', {name: 'example.com'})
  const stored = await until('an attempt', async () => {
    const found = await api.get(`/v1/requests/${request}`)
    return found.deliveries[0]?.attempts.length > 0 && found
  })
  const [delivery] = stored.deliveries
  const [replay] = (await api.get(`/v1/webhooks/${webhook.id}/replays`)).data
  const [notice] = (await api.get('/v1/notices')).data
  const {key} = await api.get('/v1/server')
  const mail = await api.get(`/v1/emails/${email.id}`)
  return {
    [request]: `/requests/${request}`,
    [stored.key]: `/requests/${request}`,
    [` ${request.toUpperCase()}\n`]: `/requests/${request}`,
    [delivery.id]: `/deliveries/${delivery.id}`,
    [delivery.attempts[0].id]: `/deliveries/${delivery.id}`,
    [source.id]: `/sources/${source.id}`,
    [destination.id]: `/sources/${source.id}`,
    [event.id]: `/events/${event.id}`,
    [failed.id]: `/deliveries/${failed.id}`,
    [webhook.id]: `/webhooks/${webhook.id}`,
    [replay.id]: `/webhooks/${webhook.id}`,
    [email.id]: `/emails/${email.id}`,
    [mail.message_id]: `/emails/${email.id}`,
    [mail.recipients[0].id]: `/emails/${email.id}`,
    [template.id]: `/templates/${template.id}`,
    [domain.id]: '/domains',
    [key.id]: '/keys',
    [notice.id]: '/notices',
  }
}

async function search(text) {
  await page.keyboard.press('/')
  await page.locator('#search').fill(text)
  await page.keyboard.press('Enter')
}

let places = null
await step('one of each thing is there', async () => {
  places = await stock()
  for (const text of Object.keys(places)) if (text === 'undefined') throw new Error('expected each thing to have an id')
  same(Object.keys(places).length, 18, 'the number of things')
})

await step('each id opens its thing', async () => {
  for (const [text, place] of Object.entries(places)) {
    await go(page, '/settings')
    await search(text)
    await until(`${text} to open ${place}`, () => path(page) === place)
    await settled(page)
    same(await page.getByRole('alert').count(), 0, `the number of faults on the page of ${text}`)
    await until('an empty search box', async () => (await page.locator('#search').inputValue()) === '')
  }
})

await step('an id of nothing is said to be unknown', async () => {
  await go(page, '/settings')
  await search('att_01m8pme8n8e00801b9dqdyqy7n')
  await sees(page, 'Nothing has the id att_01m8pme8n8e00801b9dqdyqy7n here.')
  same(path(page), '/settings', 'where one is')
})

await step('any other text is searched in bodies', async () => {
  await search('"order":1042')
  await until('the search', () => path(page) === '/requests' && query(page).text === '"order":1042')
  await until('the request', async () => (await page.locator('tbody tr').count()) === 1)
})

await end()
