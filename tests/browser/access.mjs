// Everybody can use it: with a screen reader, without a mouse, in either theme, on a narrow screen.

import {api} from './api.mjs'
import {end, go, holds, open, press, require, same, step, until} from './driver.mjs'
import {stock} from './stock.mjs'
import {expectStray} from './watch.mjs'

const AXE = require.resolve('axe-core/axe.min.js')
const NARROW_PX = 360

/** What the rules of WCAG find on a page that is seriously wrong, in either theme. */
async function check(page, where) {
  const told = []
  const grounds = new Set()
  for (const theme of ['dark', 'light']) {
    await page.emulateMedia({colorScheme: theme})
    grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor))
    told.push(...await checkTheme(page, `${where}, ${theme}`))
  }
  same(grounds.size, 2, `the number of themes of ${where}`)
  return told
}

async function checkTheme(page, where) {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.addScriptTag({path: AXE})
  const {violations} = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'], iframes: false,
  }))
  const grave = violations.filter(it => ['serious', 'critical'].includes(it.impact))
  const told = grave.flatMap(it => it.nodes.slice(0, 3).map(node => `${it.id} (${it.help}): ${node.html.slice(0, 200)}\n    ${node.failureSummary.replaceAll('\n', ' ')}`))
  return told.map(it => `${where}: ${it}`)
}

/** What can be opened over a page: name → page → how. */
const DIALOGS = {
  'the help': ['overview', page => page.keyboard.press('?')],
  'a new source': ['sources', page => press(page, 'New source')],
  'a new destination': ['source', page => press(page, 'New destination')],
  'many retries': ['source', page => press(page, 'Retry many…')],
  'publishing': ['events', page => press(page, 'Publish an event')],
  'a question': ['delivery', page => press(page, 'Retry (1 credit)')],
  'a dangerous question': ['request', page => press(page, 'Delete')],
}
const FORMS = {
  'a new webhook': ['webhooks', page => press(page, 'New webhook')],
  'a changed webhook': ['webhook-settings', page => press(page, 'Edit')],
  'a new key': ['keys', page => press(page, 'New key')],
  'a new template': ['templates', page => press(page, 'New template')],
}

let pages = null
await step('an ordinary day is there', async () => {
  pages = await stock()
  expectStray('/nowhere')
})

await step('nothing is seriously in the way of assistive technology, in either theme', async () => {
  // The rules are a script that the pages' own policy rightly refuses; here it is set aside.
  const page = await open({bypassCSP: true})
  const found = []
  for (const [name, at] of Object.entries(pages)) {
    await go(page, at)
    found.push(...await check(page, name))
  }
  for (const [name, [on, act]] of Object.entries({...DIALOGS, ...FORMS})) {
    await go(page, pages[on])
    await act(page)
    if (name in DIALOGS) await page.getByRole('dialog').waitFor()
    found.push(...await check(page, name))
  }
  const stranger = await open({bypassCSP: true, signedIn: false, path: '/sign-in'})
  found.push(...await check(stranger, 'sign-in'))
  await stranger.getByLabel('API key').fill('wrong')
  await press(stranger, 'Sign in')
  await stranger.getByRole('alert').waitFor()
  found.push(...await check(stranger, 'a refused sign-in'))
  same(found, [], 'the list of what is in the way')
  await stranger.context().close()
  await page.context().close()
})

await step(`no page is wider than ${NARROW_PX} px`, async () => {
  const page = await open({width: NARROW_PX, height: 740})
  const wide = []
  const measure = async name => {
    const width = await page.evaluate(() => document.scrollingElement.scrollWidth)
    if (width > NARROW_PX) wide.push(`${name}: ${width} px, for ${await page.evaluate(widest, NARROW_PX)}`)
  }
  for (const [name, at] of Object.entries(pages)) {
    await go(page, at)
    await measure(name)
  }
  for (const [name, [on, act]] of Object.entries({...DIALOGS, ...FORMS})) {
    await go(page, pages[on])
    await act(page)
    await measure(name)
  }
  same(wide, [], 'the list of pages that are too wide')
  await go(page, '/')
  const link = page.getByRole('link', {name: 'Webhooks'})
  same(await link.isVisible(), false, 'whether links are seen before the menu is opened')
  await press(page, 'Menu')
  await link.click()
  await page.getByRole('heading', {name: 'Webhooks', level: 1}).waitFor()
})

/** The element that reaches farthest to the right. */
function widest(most) {
  const all = [...document.querySelectorAll('main *')].filter(it => it.getBoundingClientRect().right > most && !it.closest('pre, .table-box'))
  const [first] = all.sort((a, b) => b.getBoundingClientRect().right - a.getBoundingClientRect().right)
  return first ? first.outerHTML.slice(0, 200) : 'nothing in main'
}

await step('whatever has the focus is seen to have it', async () => {
  const page = await open()
  for (const at of [pages.overview, pages.requests, pages.request, pages['webhook-degraded'], pages.keys]) {
    await go(page, at)
    const seen = new Set()
    for (let presses = 0; presses < 60; presses += 1) {
      await page.keyboard.press('Tab')
      const it = await page.evaluate(() => {
        const {activeElement: focused} = document
        if (focused === document.body) return null
        const {outlineStyle, outlineWidth} = getComputedStyle(focused)
        // The focus may be on a part of a field, where the browser itself draws the ring.
        const part = !focused.matches(':focus')
        const ring = part || (outlineStyle !== 'none' && Number.parseFloat(outlineWidth) >= 2)
        return {ring, what: focused.outerHTML.slice(0, 120), seen: focused.checkVisibility()}
      })
      if (it === null) break
      holds(it.ring && it.seen, `a visible ring around ${it.what} on ${at}`)
      seen.add(it.what)
    }
    holds(seen.size >= 10, `to reach more than ${seen.size} things by Tab on ${at}`)
  }
})

await step('the first Tab offers to skip to the content', async () => {
  const page = await open({path: '/webhooks'})
  await page.keyboard.press('Tab')
  await page.getByRole('link', {name: 'Skip to the content'}).waitFor()
  await page.keyboard.press('Enter')
  await until('the content to have the focus', () => page.evaluate(() => document.activeElement.id === 'main'))
})

await step('a dialog keeps the focus, and gives it back', async () => {
  const page = await open({path: '/events'})
  const button = page.getByRole('button', {name: 'Publish an event'})
  await button.focus()
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  for (let presses = 0; presses < 12; presses += 1) {
    await page.keyboard.press('Tab')
    holds(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog') !== null), 'the focus to stay in the dialog')
  }
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({state: 'detached'})
  await until('the button to have the focus again', () => button.evaluate(it => it === document.activeElement))
})

await step('new rows are said, not only shown', async () => {
  const page = await open({path: '/events'})
  await api.post('/v1/events', {type: 'order.cancelled', data: {}})
  await until('it to be said', async () => (await page.locator('[aria-live=polite]').allInnerTexts()).some(it => it.includes('1 new row at the top')))
})

await end()
