// Drives Chromium through the dashboard of a server that a test has started.
//
//     node requests.mjs '{"url": "http://127.0.0.1:8420", "key": "rst_live_…", "link": "http://…/sign-in#link=…",
//                         "chromium": "/usr/bin/chromium", "tools": "target/tools/browser", "pictures": "target/screenshots"}'
//
// `tools` is where `npm ci` put node_modules. Each step that holds is a line that begins with `ok`; the first that does
// not ends the run: it is told, and what was seen is kept as a picture.

import {mkdirSync} from 'node:fs'
import {createRequire} from 'node:module'
import {basename, join, resolve} from 'node:path'
import {checkCalls, quiet, watch} from './watch.mjs'

export const name = basename(process.argv[1], '.mjs')
if (process.argv[2] === undefined) {
  console.error(`usage: node ${name}.mjs '{"url": …, "key": …, "link": …, "chromium": …, "tools": …, "pictures": …}'`)
  process.exit(2)
}
export const given = JSON.parse(process.argv[2])
mkdirSync(given.pictures, {recursive: true})
// Modules are looked up beside the file that asks: this one asks as if it were a file of that directory.
export const require = createRequire(join(resolve(given.tools), 'driver.mjs'))
const {chromium} = require('playwright-core')

/** For anything that is waited for. */
const PATIENCE_MS = 20_000

const browser = await chromium.launch({executablePath: given.chromium})
const steps = []
let current = null

/** A page of a browser that nobody used before; signed in unless told otherwise. */
export async function open({signedIn = true, width = 1280, height = 900, theme = 'light', path, ...rest} = {}) {
  const context = await browser.newContext({
    baseURL: given.url, viewport: {width, height}, colorScheme: theme, locale: 'en-GB', timezoneId: 'UTC', reducedMotion: 'reduce',
    permissions: ['clipboard-read', 'clipboard-write'], ...rest,
  })
  context.setDefaultTimeout(PATIENCE_MS)
  await watch(context)
  if (signedIn) {
    const answer = await context.request.post('/session', {data: {key: given.key}})
    holds(answer.ok(), `the key begins a session, not ${answer.status()}`)
  }
  current = await context.newPage()
  if (path) await go(current, path)
  return current
}

/** Loads a page of the dashboard and waits until it shows more than what it loads. */
export async function go(page, path) {
  current = page
  await page.goto(path)
  await settled(page)
}

/** All that was asked for is answered and drawn, also what only an answer made the page ask for. */
export async function settled(page) {
  await page.locator('h1').first().waitFor()
  await until('the page to be at rest', async () => {
    const drawn = () => page.evaluate(() => new Promise(done => requestAnimationFrame(() => setTimeout(done))))
    for (let draws = 0; draws < 3; draws += 1) {
      if (!quiet()) return false
      await drawn()
    }
    return (await page.locator('.loading').count()) === 0
  })
}

/** Marks the document: a load of another one takes the mark away. */
export const mark = page => page.evaluate(() => { globalThis.marked = true })
export const unloaded = async (page, what) => holds(await page.evaluate(() => globalThis.marked === true), `${what} without loading the page again`)

export function holds(condition, expected) {
  if (!condition) throw new Error(`expected: ${expected}`)
}

export function same(actual, wanted, what) {
  const [is, should] = [JSON.stringify(actual), JSON.stringify(wanted)]
  holds(is === should, `${what} to be ${should}, not ${is}`)
}

/** Waits until `probe` gives something true, and gives that. */
export async function until(expected, probe) {
  const end = Date.now() + PATIENCE_MS
  for (;;) {
    const found = await probe()
    if (found) return found
    if (Date.now() > end) throw new Error(`expected within ${PATIENCE_MS / 1000} s: ${expected}`)
    await new Promise(wake => setTimeout(wake, 50))
  }
}

/** Waits for a text that is seen. `where`: a page or a locator. */
export async function sees(where, text) {
  await until(`to see ${text}`, () => where.getByText(text).filter({visible: true}).first().isVisible())
}

export const gone = (where, text) => until(`not to see ${text}`, async () => (await where.getByText(text).filter({visible: true}).count()) === 0)

/** Presses the button of that name; `where`: a page or a locator. */
export const press = (where, label) => where.getByRole('button', {name: label, exact: typeof label === 'string'}).first().click()

/** Answers the question that is open: it must say all of `says`. */
export async function answer(page, button, ...says) {
  const dialog = page.getByRole('dialog')
  await dialog.waitFor()
  const text = await dialog.innerText()
  for (const it of says) holds(text.includes(it), `the question to say "${it}", not: ${text}`)
  await press(dialog, button)
  await dialog.waitFor({state: 'detached'})
}

/** The query of a page's address, as an object. */
export const query = page => Object.fromEntries(new URL(page.url()).searchParams)
export const path = page => new URL(page.url()).pathname

export const clipboard = page => page.evaluate(() => navigator.clipboard.readText())

export async function step(what, run) {
  try {
    await run()
  } catch (error) {
    await tell(what, error)
    process.exit(1)
  }
  steps.push(what)
  console.log(`ok ${what}`)
}

async function tell(what, error) {
  console.log(`failed ${what}\n${error.stack ?? error}`)
  // A page that hangs must not keep the run from ending.
  setTimeout(() => process.exit(1), 15_000)
  if (!current || current.isClosed()) return
  const picture = join(given.pictures, `failed-${name}.png`)
  const seen = await current.locator('body').innerText({timeout: 5000}).catch(() => '')
  await current.screenshot({path: picture, timeout: 5000}).catch(() => {})
  console.log(`at ${current.url()}, seen in ${picture}:\n${seen.slice(0, 3000)}`)
}

/** The end of a run: of all that the pages did nothing may be left that should not be. */
export async function end() {
  await step('pages call the API, and nothing else', () => checkCalls())
  await browser.close()
  console.log(`ok all ${steps.length} steps of ${name}`)
  process.exit(0)
}
