// Emails: a captured one is read in all its forms; templates, domains and suppressions.

import {readFile} from 'node:fs/promises'
import {api} from './api.mjs'
import {answer, end, go, holds, open, path, press, same, sees, settled, step, until} from './driver.mjs'

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC'
const MAIL = {
  from: {email: 'shop@example.com', name: 'The shop'},
  to: [{email: 'ada@example.net', name: 'Ada'}, 'grace@example.org'],
  subject: 'Your order 1042',
  html: '<h1 style="color: green">Thank you, Ada</h1><p>Order 1042 is paid.</p><img alt="logo" src="cid:logo">',
  text: 'Thank you, Ada\n\nOrder 1042 is paid.',
  tags: {order: '1042'},
  attachments: [
    {filename: 'invoice 1042.csv', content: Buffer.from('item,price\nbook,12\n').toString('base64'), content_type: 'text/csv'},
    {filename: 'logo.png', content: PIXEL, content_type: 'image/png', content_id: 'logo'},
  ],
}
const page = await open()
const rows = page.locator('tbody tr')
let email = null

const tab = async label => {
  await page.getByRole('group', {name: 'Parts of this email'}).getByRole('button', {name: label, exact: true}).click()
  await settled(page)
}

async function downloaded(row, label) {
  const [download] = await Promise.all([page.waitForEvent('download'), press(row, label)])
  return {name: download.suggestedFilename(), bytes: await readFile(await download.path())}
}

await step('without emails the page says how to send one, and that mail is captured', async () => {
  await go(page, '/emails')
  await sees(page, 'No emails yet.')
  await sees(page, 'Mail is captured: it is kept and shown here, and goes nowhere.')
})

await step('an email that is sent is listed and opened', async () => {
  email = await api.post('/v1/emails', MAIL)
  await until('it to be captured', async () => (await api.get(`/v1/emails/${email.id}`)).status === 'sent')
  await sees(rows, 'Your order 1042')
  await sees(rows, 'captured')
  await sees(rows, 'Ada <ada@example.net>')
  await rows.getByRole('link', {name: 'Your order 1042'}).click()
  await until('its page', () => path(page) === `/emails/${email.id}`)
  await sees(page, 'Captured: it was kept here and went nowhere.')
  const people = page.locator('details.card')
  await until('both recipients', async () => (await people.count()) === 2)
  for (const it of ['Ada <ada@example.net>', 'grace@example.org', 'delivered', 'Attempt 1']) await sees(people, it)
})

await step('its HTML is shown in a frame in a frame, with the image that it carries', async () => {
  await tab('HTML')
  const outer = page.locator('iframe.safe-html')
  same(await outer.getAttribute('sandbox'), 'allow-scripts', 'what the outer frame may do')
  const inner = outer.contentFrame().locator('iframe')
  await inner.waitFor()
  same(await inner.getAttribute('sandbox'), '', 'what the inner frame may do')
  const mail = inner.contentFrame()
  await mail.getByRole('heading', {name: 'Thank you, Ada'}).waitFor()
  await until('the image in place of its cid', async () => (await mail.getByAltText('logo').getAttribute('src'))?.startsWith('data:image/png;base64,'))
  holds(await mail.getByAltText('logo').evaluate(it => it.complete && it.naturalWidth === 1), 'the image to be drawn')
})

await step('its text, headers and source are shown', async () => {
  await tab('Text')
  same(await page.locator('pre.body').innerText(), MAIL.text, 'the text')
  await tab('Headers')
  for (const it of ['Subject', 'Message-ID', 'The shop']) await sees(page.locator('dl.headers'), it)
  await tab('Source')
  await sees(page.locator('pre.body'), 'MIME-Version: 1.0')
  const eml = await downloaded(page, 'Download .eml')
  same(eml.name, `${email.id}.eml`, 'the name of the file')
  holds(eml.bytes.includes('Your order 1042'), 'the source in the file')
})

await step('its attachments are downloaded as they were sent', async () => {
  await tab('Attachments')
  await until('two attachments', async () => (await rows.count()) === 2)
  const csv = await downloaded(rows.filter({hasText: 'invoice 1042.csv'}), 'Download')
  same([csv.name, csv.bytes.toString()], ['invoice 1042.csv', 'item,price\nbook,12\n'], 'the file')
})

await step('what webhooks were told is listed', async () => {
  await tab('Events')
  await sees(rows, 'email.delivered')
  await sees(rows, 'grace@example.org')
})

await step('a scheduled email gets another time, and is cancelled', async () => {
  const at = new Date(Date.now() + 86_400_000).toISOString()
  const later = await api.post('/v1/emails', {from: 'shop@example.com', to: 'ada@example.net', subject: 'Tomorrow', text: 'Soon.', scheduled_at: at})
  await go(page, `/emails/${later.id}`)
  await sees(page, 'Goes out')
  await press(page, 'Reschedule')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Not before').fill(new Date(Date.now() + 2 * 86_400_000).toISOString().slice(0, 16))
  await press(dialog, 'Reschedule')
  await dialog.waitFor({state: 'detached'})
  holds((await api.get(`/v1/emails/${later.id}`)).scheduled_at > at, 'another time')
  await press(page, 'Cancel the email')
  await answer(page, 'Cancel the email', 'Nothing is sent')
  await sees(page, 'It was cancelled: nothing was sent.')
})

await step('emails are filtered by status', async () => {
  await go(page, '/emails?status=cancelled')
  await until('the cancelled one', async () => (await rows.count()) === 1)
  await sees(rows, 'Tomorrow')
  await press(page, 'In trouble only')
  await sees(page, 'No emails match these filters.')
})

await step('a template is made, previewed, published and duplicated', async () => {
  await go(page, '/templates')
  await sees(page, 'No templates yet.')
  await press(page, 'New template')
  await page.getByLabel('Name', {exact: true}).fill('Welcome')
  await page.getByLabel('Slug').fill('welcome')
  await page.getByLabel('Subject').fill('Welcome, {{ name }}')
  await page.getByLabel('HTML', {exact: true}).fill('<p>Hello <b>{{ name }}</b></p>')
  await page.getByLabel('Text', {exact: true}).fill('Hello {{ name }}')
  await page.getByLabel('Values for what a caller leaves out').fill('{"name": "you"}')
  await press(page, 'Create the template')
  await page.getByRole('heading', {name: 'Welcome', level: 1}).waitFor()
  await sees(page, 'nothing is published')
  await sees(page, 'Welcome, you')
  await page.getByLabel('Values of a caller, as JSON').fill('{"name": "<i>Ada</i>"}')
  await sees(page, 'Welcome, <i>Ada</i>')
  const preview = page.locator('iframe.safe-html').contentFrame().locator('iframe').contentFrame()
  await until('the value escaped', async () => (await preview.locator('b').innerText()) === '<i>Ada</i>')
  await press(page, 'Publish the draft')
  await answer(page, 'Publish the draft', 'from now on')
  await sees(page, 'version 1 is sent')
  await press(page, 'Duplicate')
  await until('another template', async () => (await api.get('/v1/templates')).data.length === 2)
})

await step('a domain shows the records to set, and is deleted', async () => {
  await go(page, '/domains')
  await sees(page, 'No domains yet.')
  await page.getByLabel('A domain of yours').fill('mail.invalid')
  await press(page, 'Add the domain')
  await page.getByRole('heading', {name: 'mail.invalid'}).waitFor()
  await sees(page, 'v=DKIM1')
  await press(page, 'Delete')
  await answer(page, 'Delete', 'Delete mail.invalid?')
  await sees(page, 'No domains yet.')
})

await step('a mailbox is suppressed, gets nothing, and is let in again', async () => {
  await go(page, '/suppressions')
  await sees(page, 'Nothing is suppressed.')
  await page.getByLabel('Mailbox').fill('Ada@Example.net')
  await press(page, 'Suppress it')
  await until('it is listed', async () => (await rows.count()) === 1)
  const refused = await api.post('/v1/emails', {from: 'shop@example.com', to: 'ada@example.net', subject: 'Again', text: 'Again.'})
  await go(page, `/emails/${refused.id}`)
  await sees(page, 'The mailbox is on the list of suppressions: nothing was sent to it.')
  await go(page, '/suppressions')
  await press(rows, 'Remove')
  await answer(page, 'Remove', 'Send mail to')
  await sees(page, 'Nothing is suppressed.')
})

await end()
