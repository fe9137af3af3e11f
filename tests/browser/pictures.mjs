// Pictures of every page, in both themes, wide and narrow: to be looked at by people.

import {statSync} from 'node:fs'
import {join} from 'node:path'
import {end, given, go, holds, open, press, same, step} from './driver.mjs'
import {stock} from './stock.mjs'
import {expectStray} from './watch.mjs'

const SIZES = {1280: 900, 360: 740}
/** A page follows the system's theme unless told otherwise. */
const THEMES = ['dark', 'light']

/** Each page that is taken, besides those of `stock`: with something open over it. */
const OPEN = {
  'request-retry': ['delivery', page => press(page, 'Retry (1 credit)')],
  help: ['overview', page => page.keyboard.press('?')],
  'webhook-test-failed': ['webhook-test', async page => { await press(page, 'Send a test'); await page.getByRole('status').filter({hasText: 'Status code'}).waitFor() }],
  'webhook-counted': ['webhook-outage', async page => { await press(page, 'Count what that is'); await page.getByRole('status').filter({hasText: 'in the window'}).waitFor() }],
  'source-destination': ['source', page => press(page, 'New destination')],
  'key-new': ['keys', page => press(page, 'New key')],
}

let pages = null
await step('an ordinary day is there', async () => {
  pages = await stock()
  expectStray('/nowhere')
})

for (const [width, height] of Object.entries(SIZES)) {
  await step(`pictures are taken, ${width} px wide`, async () => {
    const page = await open({width: Number(width), height})
    const taken = new Set()
    const take = async (shown, name) => {
      for (const theme of THEMES) {
        const file = join(given.pictures, `${name}-${theme}-${width}.png`)
        await shown.emulateMedia({colorScheme: theme})
        await shown.screenshot({path: file, fullPage: !(name in OPEN), animations: 'disabled'})
        holds(statSync(file).size > 5000, `a picture of ${name}`)
      }
      taken.add(name)
    }
    for (const [name, at] of Object.entries(pages)) {
      await go(page, at)
      if (name === 'email-html' || name === 'template') {
        // A frame that is out of sight is not drawn.
        await page.locator('iframe.safe-html').scrollIntoViewIfNeeded()
        await page.locator('iframe.safe-html').contentFrame().locator('iframe').contentFrame().locator('h1').waitFor()
      }
      await take(page, name)
    }
    for (const [name, [on, act]] of Object.entries(OPEN)) {
      await go(page, pages[on])
      await act(page)
      await take(page, name)
    }
    const stranger = await open({width: Number(width), height, signedIn: false, path: '/sign-in'})
    await take(stranger, 'sign-in')
    same(taken.size, Object.keys(pages).length + Object.keys(OPEN).length + 1, 'the number of pages')
    await stranger.context().close()
    await page.context().close()
  })
}

await end()
