// Requests: they appear while one watches, are opened, copied, retried, replayed.

import {api, receiver, send} from './api.mjs'
import {answer, clipboard, end, gone, go, holds, mark, open, path, press, query, same, sees, settled, step, unloaded, until} from './driver.mjs'

const shop = await receiver(503)
const page = await open()
const rows = page.locator('tbody tr')
let source = null
let first = null

await step('without a source the pages say how to make one', async () => {
  await go(page, '/requests')
  await sees(page, 'There is no source yet.')
  await sees(page, 'restante sources create shop')
})

await step('a source is made, and a destination that keeps trying', async () => {
  await go(page, '/sources')
  await press(page, 'New source')
  await page.getByLabel('Name').fill('shop')
  await press(page, 'Make the source')
  await page.getByRole('heading', {name: 'shop', level: 1}).waitFor()
  await sees(page, 'It has no destination: it is an inbox.')
  const id = path(page).split('/')[2]
  source = await api.get(`/v1/sources/${id}`)
  await press(page, 'Copy URL')
  same(await clipboard(page), source.url, 'what is copied')

  await press(page, 'New destination')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('URL').fill('no address')
  await press(dialog, 'Make the destination')
  await dialog.locator('.field-error').waitFor()
  await dialog.getByLabel('URL').fill(`${shop.url}/orders`)
  await dialog.getByLabel('Schedule').fill('1, 1800, 3600')
  await press(dialog, 'Make the destination')
  await dialog.waitFor({state: 'detached'})
  await page.getByRole('article', {name: `Destination ${shop.url}/orders`}).waitFor()
  await sees(page, 'custom: 1.0 s, 30 min, 1 h')
})

await step('a request appears while one watches', async () => {
  await go(page, '/requests')
  await sees(page, 'Nothing has come yet.')
  await sees(page, source.url)
  await sees(page, 'live')
  await mark(page)
  first = await send(source, {path: '/paid?day=monday', headers: {'content-type': 'application/json', 'x-order': '1042', 'x-signature': 'f00'}, body: '{"order":1042,"total":1e2}'})
  await until('one row', async () => (await rows.count()) === 1)
  await sees(rows, '/paid')
  await unloaded(page, 'the row to appear')
})

await step('a paused list collects what comes, and does not move', async () => {
  await page.keyboard.press('p')
  await sees(page, 'paused')
  await send(source, {path: '/second'})
  await send(source, {path: '/third'})
  await sees(page, '2 new')
  same(await rows.count(), 1, 'the number of rows')
  await page.keyboard.press('p')
  await until('three rows', async () => (await rows.count()) === 3)
  await sees(rows.first(), '/third')
  await unloaded(page, 'the rows to appear')
})

await step('a row that is selected stays where it is, and what comes is counted', async () => {
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  await page.locator('tr[data-selected]', {hasText: '/paid'}).waitFor()
  await send(source, {path: '/fourth'})
  await sees(page, '1 new')
  same(await rows.count(), 3, 'the number of rows')
})

await step('Enter opens it: what it is, what happened, what comes next, when and why', async () => {
  await page.keyboard.press('Enter')
  await until('its page', () => path(page) === `/requests/${first}`)
  await unloaded(page, 'to get there')
  await page.getByRole('heading', {name: 'POST /paid?day=monday', level: 1}).waitFor()
  for (const it of ['x-order', '1042', 'application/json']) await sees(page.locator('dl.headers'), it)
  await until('the body laid out as it was written', async () =>
    (await page.locator('pre.body').innerText()) === '{\n  "order": 1042,\n  "total": 1e2\n}')
  await press(page, 'Raw')
  same(await page.locator('pre.body').innerText(), '{"order":1042,"total":1e2}', 'the raw body')
  const timeline = page.locator('.timeline')
  await until('the third attempt to be waited for', async () => (await timeline.innerText()).includes('Attempt 3 of 4 in 29 min'))
  const said = await timeline.innerText()
  for (const it of ['NEXT', 'attempt 3 of 4, 30 min after the one before', 'If it fails: 1 h', 'Attempt 1', 'Attempt 2', '503', `${shop.url}/orders/paid?day=monday`]) {
    holds(said.toLowerCase().includes(it.toLowerCase()), `the timeline to say "${it}", not: ${said}`)
  }
})

await step('it is copied as a command, with proofs only when asked', async () => {
  await page.keyboard.press('c')
  await sees(page, 'Copied as curl, without signature headers.')
  const plain = await clipboard(page)
  for (const it of [`curl -X POST '${source.url}/paid?day=monday'`, "-H 'x-order: 1042'", `--data-binary '{"order":1042,"total":1e2}'`]) {
    holds(plain.includes(it), `the command to hold ${it}:\n${plain}`)
  }
  holds(!plain.includes('x-signature'), `the command to hold no signature:\n${plain}`)
  await page.getByLabel('with 1 signature or secret header').check()
  await page.getByRole('combobox', {name: 'to'}).selectOption('local')
  await press(page, 'Copy as curl')
  const whole = await until('another command', async () => (await clipboard(page)) !== plain && clipboard(page))
  holds(whole.includes("-H 'x-signature: f00'") && whole.includes("'http://localhost:3000/paid?day=monday'"), `the signature and the other target:\n${whole}`)
})

await step('a cancelled delivery is retried for one credit, and becomes delivered while one watches', async () => {
  await press(page, 'Cancel')
  await answer(page, 'Cancel the delivery', 'No further attempt is made')
  await sees(page, 'It was cancelled on request')
  shop.status = 200
  await mark(page)
  await press(page, 'Retry (1 credit)')
  await answer(page, 'Keep as it is', 'It costs one credit')
  await press(page, 'Retry (1 credit)')
  await answer(page, 'Retry for 1 credit', 'It costs one credit')
  await sees(page.locator('.next'), 'Delivered. Nothing more happens')
  await sees(page, '1 earlier delivery to it')
  await unloaded(page, 'to see it delivered')
  await page.locator('.page-head').getByText('delivered').waitFor()
})

await step('the key r asks to retry, and Esc leaves all as it is', async () => {
  const before = shop.seen.length
  await page.getByRole('article', {name: /^Delivery dlv_/}).getByRole('link', {name: /^dlv_/}).first().click()
  await page.getByRole('heading', {name: 'Delivery to'}).waitFor()
  await settled(page)
  await page.keyboard.press('r')
  const dialog = page.getByRole('dialog')
  await sees(dialog, 'It was already delivered: the receiver sees it twice')
  await page.keyboard.press('Escape')
  await dialog.waitFor({state: 'detached'})
  same(shop.seen.length, before, 'what the receiver saw')
  await page.keyboard.press('r')
  await answer(page, 'Retry for 1 credit', 'It costs one credit')
  await until('the receiver to see it again', () => shop.seen.length === before + 1)
  await sees(page.locator('.next'), 'Delivered. Nothing more happens')
  await sees(page, 'Manual retry of')
})

await step('a request is replayed as a new one, for one credit', async () => {
  await go(page, `/requests/${first}`)
  await press(page, 'Replay (1 credit)')
  await answer(page, 'Replay for 1 credit', 'It costs one credit')
  await until('the page of another request', () => /^\/requests\/req_/.test(path(page)) && path(page) !== `/requests/${first}`)
  await sees(page, 'Replay of')
  await sees(page.locator('.next'), 'Delivered. Nothing more happens')
  same(shop.seen.at(-1).body, '{"order":1042,"total":1e2}', 'the body that the receiver saw')
})

await step('filters are in the address, and Back takes them away', async () => {
  await go(page, '/requests')
  await until('all rows', async () => (await rows.count()) === 5)
  await press(page, '✕ Failed only')
  await until('the filter in the address', () => query(page).state === 'failed')
  await sees(page, 'No request matches.')
  await page.getByLabel('State').selectOption('pending')
  await until('the pending ones', async () => (await rows.count()) === 3)
  await page.getByLabel('Path contains').fill('THIRD'.toLowerCase())
  await page.keyboard.press('Enter')
  await until('one row', async () => (await rows.count()) === 1)
  same(query(page), {state: 'pending', path: 'third'}, 'the query')
  await page.reload()
  await settled(page)
  await until('one row after a reload', async () => (await rows.count()) === 1)
  await page.goBack()
  await until('three rows again', async () => (await rows.count()) === 3)
  await press(page, 'Clear filters')
  await until('no filter', () => Object.keys(query(page)).length === 0)
})

await step('a text in the search box finds bodies', async () => {
  await page.keyboard.press('/')
  await page.keyboard.type('"total":1e2')
  await page.keyboard.press('Enter')
  await until('the search', () => query(page).text === '"total":1e2')
  await until('the request and its replay', async () => (await rows.count()) === 2)
  await sees(rows, '/paid')
})

await step('a source asks for signatures and knows repeats, and a request says what kept it back', async () => {
  await go(page, '/sources')
  const careful = await api.post('/v1/sources', {name: 'careful'})
  await go(page, `/sources/${careful.id}`)
  await page.getByLabel('Signatures (JSON)').fill('{"kind": "github"}')
  await press(page, 'Save the settings')
  await page.locator('.field-error', {hasText: 'secret is required'}).waitFor()
  await page.getByLabel('Repeats (JSON)').fill('{"header": "x-id", "hours": 24}')
  await page.getByLabel('Signatures (JSON)').fill('')
  await press(page, 'Save the settings')
  await sees(page, 'Repeats by')
  const one = await send(careful, {headers: {'x-id': 'a'}})
  const other = await send(careful, {headers: {'x-id': 'a'}})
  await go(page, `/requests/${other}`)
  await sees(page, 'Duplicate of')
  await page.locator(`main a[href="/requests/${one}"]`).first().click()
  await until('the first', () => path(page) === `/requests/${one}`)

  await go(page, `/sources/${careful.id}`)
  await page.getByLabel('Signatures (JSON)').fill('{"kind": "github", "secret": "canary"}')
  await press(page, 'Save the settings')
  await sees(page, 'Signed as')
  holds(!(await page.content()).includes('canary'), 'the secret not to be shown')
  const {status, headers} = await fetch(careful.url, {method: 'POST'})
  same(status, 401, 'the status')
  await go(page, `/requests/${headers.get('x-request-id')}`)
  await sees(page, 'It was rejected: the header X-Hub-Signature-256 is missing.')
})

await step('many deliveries are retried: choose, count, confirm, progress, result', async () => {
  await go(page, `/sources/${source.id}`)
  await press(page, 'Retry many…')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('State').selectOption('delivered')
  await press(dialog, 'Preview')
  await sees(dialog, '2 deliveries, 2 credits')
  const before = shop.seen.length
  await press(dialog, 'Retry 2 deliveries for 2 credits')
  await sees(dialog, '2 of 2 deliveries created.')
  await until('the receiver to see both', () => shop.seen.length === before + 2)
  await dialog.getByRole('link', {name: 'See what became of them'}).click()
  await until('their list', () => path(page) === '/deliveries')
  await until('both delivered', async () => (await rows.filter({hasText: 'Delivered. Nothing more happens'}).count()) === 2)
})

await step('a request is deleted for good', async () => {
  await go(page, `/requests/${first}`)
  await press(page, 'Delete')
  await answer(page, 'Delete for good', 'It cannot be undone')
  await until('the list', () => path(page) === '/requests')
  await go(page, `/requests/${first}`)
  await page.getByRole('alert').waitFor()
  await gone(page, 'POST /paid')
})

await end()
