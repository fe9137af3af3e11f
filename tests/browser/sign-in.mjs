// Signing in and out.

import {end, given, go, holds, open, path, press, query, same, sees, settled, step, until} from './driver.mjs'

const REQUEST_ID = /request\s+[0-9a-f]{32}/

async function typeKey(page, key) {
  await page.getByLabel('API key').fill(key)
  await press(page, 'Sign in')
}

await step('the link of the first start signs in, and leaves nothing of itself', async () => {
  const page = await open({signedIn: false, path: given.link})
  await until('the overview', () => path(page) === '/')
  await page.getByRole('heading', {name: 'Overview'}).waitFor()
  const [cookie, ...others] = await page.context().cookies()
  same([cookie.httpOnly, cookie.sameSite, others.length], [true, 'Strict', 0], 'the one cookie')
  const kept = await page.evaluate(() => JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie + location.href)
  const word = given.link.split('=').at(-1)
  holds(!kept.includes(word) && !kept.includes(given.key) && !kept.includes(cookie.value), `no secret within reach of scripts: ${kept}`)
  await page.goBack()
  holds(!page.url().includes('link='), `the link to be in no history, not ${page.url()}`)
})

await step('the link works once', async () => {
  const page = await open({signedIn: false, path: given.link})
  await page.getByRole('alert').waitFor()
  const said = await page.getByRole('alert').innerText()
  holds(REQUEST_ID.test(said), `the error to name the request: ${said}`)
  await sees(page, 'A sign-in link works once')
  await page.getByLabel('API key').waitFor()
  holds(!page.url().includes('link='), `the address to be clean, not ${page.url()}`)
})

await step('a wrong key is refused, with the request id', async () => {
  const page = await open({signedIn: false, path: '/requests?state=failed'})
  await until('the sign-in page', () => path(page) === '/sign-in')
  await typeKey(page, 'rst_live_wrong')
  const said = await page.getByRole('alert').innerText()
  holds(said.includes('401') && REQUEST_ID.test(said), `the error to name status and request: ${said}`)
  const id = said.match(/[0-9a-f]{32}/)[0]
  await press(page.getByRole('alert'), 'Copy id')
  same(await page.evaluate(() => navigator.clipboard.readText()), id, 'what is copied')

  await typeKey(page, `  ${given.key} `)
  await page.getByRole('heading', {name: 'Requests'}).waitFor()
  same([path(page), query(page)], ['/requests', {state: 'failed'}], 'where one is after signing in')
})

await step('signing out ends the session', async () => {
  const page = await open({path: '/requests'})
  const [before] = await page.context().cookies()
  await press(page, 'Sign out')
  await until('the sign-in page', () => path(page) === '/sign-in')
  await page.getByLabel('API key').waitFor()
  await go(page, '/webhooks')
  await until('to be asked again', () => path(page) === '/sign-in')
  // Who kept the cookie has no session with it either.
  await page.context().addCookies([before])
  same((await page.context().request.get('/session')).status(), 401, 'the answer to the old cookie')
})

await step('a session that ended elsewhere leads to the sign-in page and back', async () => {
  const page = await open({path: '/settings'})
  await page.context().clearCookies()
  await page.getByRole('link', {name: 'Emails'}).click()
  await until('the sign-in page', () => path(page) === '/sign-in')
  await typeKey(page, given.key)
  await page.getByRole('heading', {name: 'Emails'}).waitFor()
  same(path(page), '/emails', 'where one is')
})

await step('no link leads away after signing in', async () => {
  const page = await open({signedIn: false})
  for (const next of ['//example.com/', '/\\example.com/', 'https://example.com/', 'javascript:alert(1)', '/\t/example.com/', '/.//example.com/']) {
    await page.context().clearCookies()
    await go(page, `/sign-in?next=${encodeURIComponent(next)}`)
    await typeKey(page, given.key)
    await page.getByRole('button', {name: 'Sign out'}).waitFor()
    await settled(page)
    same(new URL(page.url()).origin, new URL(given.url).origin, `the origin after ${JSON.stringify(next)}`)
  }
})

await end()
