// A webhook whose receiver fails: how it is seen, and the way out.

import {api, receiver} from './api.mjs'
import {answer, clipboard, end, go, holds, mark, open, path, press, query, same, sees, settled, step, unloaded, until} from './driver.mjs'

const customer = await receiver(503)
const page = await open()
const rows = page.locator('tbody tr')
const health = page.getByRole('region', {name: 'Health'})
let webhook = null

/** Publishes an event and waits until its delivery is as it should be. */
async function publish(type, state) {
  const event = await api.post('/v1/events', {type, data: {order: 1042}})
  await until(`${event.id} ${state}`, async () => (await api.get(`/v1/events/${event.id}`)).deliveries[0]?.state === state)
  return event
}

await step('a webhook is made, and its secret is shown once', async () => {
  await go(page, '/webhooks')
  await sees(page, 'No webhooks yet.')
  await press(page, 'New webhook')
  await page.getByLabel('URL', {exact: true}).fill('ftp://customer')
  await page.getByLabel('Events').fill('order.*')
  await press(page, 'Create the webhook')
  await page.locator('.field-error').waitFor()
  await page.getByLabel('URL', {exact: true}).fill(`${customer.url}/hooks`)
  await page.getByLabel('Description').fill('the customer')
  await page.getByLabel('Schedule').fill('1')
  await press(page, 'Create the webhook')
  const secret = page.getByRole('status', {name: /signing secret/})
  await secret.waitFor()
  const shown = await secret.locator('code').innerText()
  holds(shown.startsWith('whsec_'), `a secret, not ${shown}`)
  await press(secret, 'Copy')
  same(await clipboard(page), shown, 'what is copied')
  await press(secret, 'I have stored it, hide it')
  await until('one webhook', async () => (await rows.count()) === 1)
  holds(!(await page.content()).includes(shown), 'the secret to be gone')
  await rows.getByRole('link').first().click()
  await until('its page', () => /^\/webhooks\/whk_/.test(path(page)))
  webhook = await api.get(`/v1${path(page)}`)
  same(webhook.schedule.waits_seconds, [1], 'the schedule')
})

await step('an event is published by hand, and its attempts are seen', async () => {
  await go(page, '/events')
  await sees(page, 'No event is published yet.')
  await press(page, 'Publish an event')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Type').fill('order.paid')
  await dialog.getByLabel('Data').fill('{"order": 1042,}')
  await press(dialog, 'Publish')
  await sees(dialog, 'at line 1, column 16')
  await dialog.getByLabel('Data').fill('{"order": 12345678901234567890}')
  await press(dialog, 'Publish')
  await until('its page', () => /^\/events\/whe_/.test(path(page)))
  await sees(page.locator('pre.body'), '12345678901234567890')
  await sees(page.locator('.next'), 'All attempts are used up')
  await page.locator('.attempts').getByText('Attempt 2').waitFor()
  same(customer.seen.length, 2, 'the number of attempts at the receiver')
})

await step('the webhook is degraded, and its page says why, what comes next and what helps', async () => {
  await page.getByRole('link', {name: 'Webhooks'}).click()
  await rows.getByText('degraded').waitFor()
  await rows.getByRole('link').first().click()
  await sees(health, 'Degraded: it has been failing since')
  for (const it of ['A failed attempt at', 'or later pauses it', 'Mend the receiver', '2 automatic attempts']) await sees(health, it)
  await until('two failed attempts', async () => (await rows.getByText('failed').count()) === 2)
})

await step('the notice is listed, and leads to the way out', async () => {
  await go(page, '/notices')
  await sees(rows, 'degraded')
  await rows.getByRole('link').first().click()
  await until('the guided path', () => path(page) === `/webhooks/${webhook.id}` && query(page).tab === 'outage')
  await settled(page)
})

await step('a test tells that the receiver still fails', async () => {
  customer.body = 'the database is gone'
  await press(page, 'Send a test')
  await sees(page, 'The receiver answered 503, which is no 2xx.')
  await sees(page, 'the database is gone')
})

await step('it is paused and resumed by hand; what came meanwhile is skipped', async () => {
  await mark(page)
  await press(page, 'Pause')
  await answer(page, 'Pause', 'events that come meanwhile are skipped')
  await sees(health, 'Paused by hand.')
  await sees(page, 'needs an active webhook')
  await publish('order.paid', 'skipped')
  await publish('order.shipped', 'skipped')
  customer.status = 200
  await press(page, 'Send a test')
  await sees(page, 'The receiver took it.')
  await page.getByRole('listitem').filter({hasText: 'Set it active'}).getByRole('button', {name: 'Set active'}).click()
  await sees(health, 'Active. It is not failing.')
  await unloaded(page, 'to become active')
})

await step('what was skipped is counted, recovered, and seen to arrive', async () => {
  const before = customer.seen.length
  await press(page, 'Count what that is')
  await sees(page, 'never delivered: 1 event')
  await sees(page, 'the webhook was paused: 2 events')
  await press(page, 'Recover 2 events')
  await answer(page, 'Recover 2 events', 'Recover 2 events?')
  const run = rows.filter({hasText: 'recover'})
  await sees(run, '2 of 2')
  await until('it is done', async () => (await run.innerText()).includes('done'))
  same(customer.seen.length - before, 2, 'the number of events at the receiver')
})

await step('what failed is counted, replayed with its id, and seen to arrive', async () => {
  const before = customer.seen.length
  await press(page, 'Count what that is')
  await sees(page, 'never delivered: 1 event')
  await press(page, 'Replay 1 event')
  await answer(page, 'Replay 1 event', 'Replay 1 event?', 'It costs nothing')
  await sees(rows.filter({hasText: 'replay'}), '1 of 1')
  same(customer.seen.length - before, 1, 'the number of events at the receiver')
  same(customer.seen.at(-1).headers['webhook-id'], customer.seen[0].headers['webhook-id'], 'the id of the event')
})

await step('its deliveries are filtered, and one is sent again', async () => {
  await press(page, 'Deliveries')
  await press(page, 'skipped')
  await until('the filter in the address', () => query(page).state === 'skipped' && query(page).tab === 'deliveries')
  await sees(page, 'No such deliveries.')
  await press(page, 'delivered')
  await until('both recovered and the one that was replayed', async () => (await rows.filter({hasText: 'delivered'}).count()) >= 2)
  const before = customer.seen.length
  await press(rows.first(), 'Replay')
  await answer(page, 'Replay', 'whatever its state')
  await until('the receiver to see it again', () => customer.seen.length === before + 1)
})

await step('a delivery of it says who gets it, and is replayed for nothing', async () => {
  await rows.first().getByRole('link').first().click()
  await page.getByRole('heading', {name: `Delivery to ${customer.url}/hooks`}).waitFor()
  const before = customer.seen.length
  await press(page, 'Replay')
  await answer(page, 'Replay', 'with the same webhook-id')
  await until('the receiver to see it again', () => customer.seen.length === before + 1)
})

await step('its settings are changed and its secret rotated', async () => {
  await go(page, `/webhooks/${webhook.id}?tab=settings`)
  await press(page, 'Edit')
  await page.getByLabel('Description').fill('another customer')
  await page.getByLabel('Headers').fill('X-Tenant: 7')
  await press(page, 'Save')
  await sees(page, 'X-Tenant, values are never read back')
  await sees(page.locator('.page-head'), 'another customer')
  same((await api.get(`/v1/webhooks/${webhook.id}`)).schedule.waits_seconds, [1], 'what was not changed')
  await press(page, 'Rotate secret')
  await answer(page, 'Rotate secret', '24 hours')
  await sees(page, 'The new signing secret')
})

await step('it is deleted', async () => {
  await press(page, 'Delete')
  await answer(page, 'Delete', 'receives nothing any more')
  await until('the list', () => path(page) === '/webhooks')
  await sees(page, 'No webhooks yet.')
})

await end()
