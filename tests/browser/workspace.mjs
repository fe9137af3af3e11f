// What is there before anything is: empty pages, keys, settings, the keyboard.

import {api} from './api.mjs'
import {answer, clipboard, end, given, go, holds, open, path, press, same, sees, settled, step, until} from './driver.mjs'
import {expectStray} from './watch.mjs'

/** Page → what it says as long as there is nothing, and a command that changes that. */
const EMPTY = {
  '/': ['Nothing goes through here yet.', 'restante sources create'],
  '/sources': ['There is no source yet.', 'restante sources create'],
  '/requests': ['There is no source yet.', 'restante sources create'],
  '/deliveries': ['Nothing is on its way yet.', 'restante destinations create'],
  '/events': ['No event is published yet.', 'restante send event'],
  '/webhooks': ['No webhooks yet.', 'restante webhooks create'],
  '/emails': ['No emails yet.', 'restante send email'],
  '/templates': ['No templates yet.', 'restante send email'],
  '/domains': ['No domains yet.', 'restante domains create'],
  '/suppressions': ['Nothing is suppressed.', 'restante suppressions add'],
  '/notices': ['No notices.', 'restante notices list'],
}
const THINGS = {
  sources: 'src', requests: 'req', deliveries: 'dlv', events: 'whe', webhooks: 'whk', emails: 'em', templates: 'tpl',
}

const page = await open()
const rows = page.locator('tbody tr')

await step('each empty page teaches the next command, which can be copied', async () => {
  for (const [at, [says, command]] of Object.entries(EMPTY)) {
    await go(page, at)
    await sees(page, says)
    const box = page.locator('.command', {hasText: command}).first()
    await press(box, 'Copy')
    const copied = await clipboard(page)
    same(copied, await box.locator('pre').innerText(), `what is copied on ${at}`)
    holds(copied.includes(command), `the command of ${at} in: ${copied}`)
  }
})

await step('the page of a thing that does not exist says so, with the request id', async () => {
  for (const [noun, prefix] of Object.entries(THINGS)) {
    await go(page, `/${noun}/${prefix}_01m8pme8n8e00801b9dqdyqy7n`)
    const fault = page.getByRole('alert').first()
    await fault.waitFor()
    const said = await fault.innerText()
    holds(/404/.test(said) && /[0-9a-f]{32}/.test(said), `/${noun} to name status and request, not: ${said}`)
  }
})

await step('a page that does not exist offers to search', async () => {
  for (const at of ['/nowhere', '/nowhere/at/all']) {
    expectStray(at)
    await go(page, at)
    await page.getByRole('heading', {name: 'No such page'}).waitFor()
    await sees(page, at)
  }
  await page.locator('#search-here').fill('something')
  await page.keyboard.press('Enter')
  await until('the search', () => page.url().endsWith('/requests?text=something'))
})

await step('a key is made: its token is shown once, and opens what it may', async () => {
  await go(page, '/keys')
  await sees(page, 'this session')
  await press(page, 'New key')
  await page.getByLabel('Name').fill('worker')
  await press(page, 'Create the key')
  await page.locator('.field-error').waitFor()
  await page.getByRole('checkbox', {name: 'events:read'}).check()
  await press(page, 'Create the key')
  const once = page.getByRole('status', {name: 'The token of worker'})
  const token = await once.locator('code').innerText()
  const ask = at => fetch(new URL(at, given.url), {headers: {authorization: `Bearer ${token}`}}).then(it => it.status)
  same([await ask('/v1/events'), await ask('/v1/sources')], [200, 403], 'what the key may')
  await page.reload()
  await settled(page)
  await until('two keys', async () => (await rows.count()) === 2)
  holds(!(await page.content()).includes(token), 'the token to be gone')

  await press(rows.filter({hasText: 'worker'}), 'Revoke')
  await answer(page, 'Revoke', 'Revoke worker?', 'It stops working at once')
  await sees(rows.filter({hasText: 'worker'}), 'revoked')
  same(await ask('/v1/events'), 401, 'the answer to the revoked key')
})

await step('revoking the own key is warned of', async () => {
  await press(rows.filter({hasText: 'this session'}), 'Revoke')
  await answer(page, 'Keep as it is', 'This session is signed in with this key: it ends too.')
})

await step('the workspace is renamed, and a wrong owner is refused at its field', async () => {
  await go(page, '/settings')
  await page.getByLabel('Owners').fill('nobody')
  await press(page, 'Save')
  await page.locator('.field', {hasText: 'Owners'}).locator('.field-error').waitFor()
  await page.getByLabel('Owners').fill('ada@example.com\ngrace@example.com')
  await page.getByLabel('Name').fill('Shop')
  await press(page, 'Save')
  await sees(page, 'The workspace is changed')
  const {name, owners} = await api.get('/v1/workspace')
  same([name, owners], ['Shop', ['ada@example.com', 'grace@example.com']], 'the workspace')
})

await step('credits are granted and listed', async () => {
  await go(page, '/credits')
  await sees(page, 'not counted')
  await page.getByLabel('Credits to add').fill('50')
  await page.getByLabel('Note').fill('for a start')
  await press(page, 'Grant')
  await until('the grant', async () => (await rows.filter({hasText: 'for a start'}).count()) === 1)
  await sees(page.locator('.numbers'), '50')
})

await step('? shows the keys, and they lead where they say', async () => {
  await page.keyboard.press('?')
  const help = page.getByRole('dialog', {name: 'Keyboard'})
  for (const it of ['g o', 'g r', 'Go to webhooks', 'Search: any id']) await sees(help, it)
  await page.keyboard.press('Escape')
  await help.waitFor({state: 'detached'})
  const places = {o: '/', r: '/requests', s: '/sources', d: '/deliveries', e: '/events', w: '/webhooks', m: '/emails'}
  for (const [key, at] of Object.entries(places)) {
    await page.keyboard.press('g')
    await page.keyboard.press(key)
    await until(`g ${key} to lead to ${at}`, () => path(page) === at)
    await settled(page)
    await until('the heading to have the focus', () => page.evaluate(() => document.activeElement.tagName === 'H1'))
  }
  await page.keyboard.press('/')
  await page.keyboard.type('g r')
  same([path(page), await page.locator('#search').inputValue()], ['/emails', 'g r'], 'what is typed, and where')
})

await step('theme and zone are kept', async () => {
  await page.getByLabel('Theme').selectOption('dark')
  await press(page, 'local time')
  await go(page, '/keys')
  same(await page.evaluate(() => document.documentElement.dataset.theme), 'dark', 'the theme after a load')
  await page.getByRole('button', {name: 'UTC'}).waitFor()
})

await step('another workspace is looked at, without a stream', async () => {
  await api.post('/v1/workspaces', {name: 'Bakery'})
  await go(page, '/requests')
  await page.getByLabel('Workspace').selectOption({label: 'Bakery'})
  await page.getByRole('heading', {name: 'Overview'}).waitFor()
  await page.getByRole('link', {name: 'Settings'}).click()
  await until('its name', async () => (await page.getByLabel('Name').inputValue()) === 'Bakery')
  await page.getByRole('link', {name: 'Requests', exact: true}).click()
  await sees(page, 'Another workspace: asks every 5 s')
})

await end()
