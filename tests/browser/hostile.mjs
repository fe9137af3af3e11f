// Stored content is hostile: on every page that shows it, it is text, and does nothing.

import {IMG, MARKUP, NAMES, STAIN, listener, poison} from './poison.mjs'
import {answer, end, given, go, holds, open, press, same, settled, step, until} from './driver.mjs'
import {checkComplaints, expectBlocked, expectStray} from './watch.mjs'

/** Read in the top document: nothing in it may come from a message. */
function foreign(origin) {
  const found = []
  const only = {script: 1, style: 0, base: 0, object: 0, embed: 0, 'meta[http-equiv]': 0, 'form[action]': 0, 'svg script': 0, '[srcdoc]': 0, img: 0, video: 0, audio: 0, '[background]': 0}
  for (const [what, most] of Object.entries(only)) if (document.querySelectorAll(what).length > most) found.push(what)
  for (const it of document.querySelectorAll('*')) {
    for (const {name} of it.attributes) if (name.startsWith('on')) found.push(`${it.localName}[${name}]`)
  }
  for (const it of document.querySelectorAll('a')) {
    if (it.href.startsWith(`${origin}/`)) continue
    if (!/^https?:/.test(it.href) || !it.rel.includes('noopener')) found.push(`link to ${it.href}`)
  }
  for (const it of document.querySelectorAll('iframe')) if (it.src !== `${origin}/frame` || it.getAttribute('sandbox') !== 'allow-scripts') found.push(`frame of ${it.src}`)
  for (const it of document.querySelectorAll('link[rel~=stylesheet], link[rel~=modulepreload]')) if (!it.href.startsWith(`${origin}/assets/`)) found.push(`link to ${it.href}`)
  return {found, outline: getComputedStyle(document.body).outlineColor, shown: document.querySelector('main')?.checkVisibility(), pwned: globalThis.pwned ?? null}
}

const page = await open()
let opened = 0
page.context().on('page', () => { opened += 1 })
expectBlocked()

/** Nothing has happened that a message wanted. */
async function unharmed(where) {
  const {found, outline, shown, pwned} = await page.evaluate(foreign, given.url)
  same(found, [], `what messages put into the page of ${where}`)
  holds(outline !== STAIN && shown, `${where} to look as it does without hostile styles`)
  same(pwned, null, `what scripts of messages did on ${where}`)
  for (const frame of page.frames()) {
    // Nothing was ever loaded into it, and no script can be run in it.
    if (frame.url() === '') continue
    same(await frame.evaluate(() => globalThis.pwned ?? null).catch(() => null), null, `what scripts of messages did in a frame of ${where}`)
  }
  same(listener.seen.map(it => it.path), [], `what messages on ${where} sent home`)
  same(opened, 0, 'the number of windows that messages opened')
  checkComplaints()
}

/** Opens a page; it must show each text as it is, and be unharmed, also with all that can be unfolded. */
async function visit(at, ...texts) {
  await go(page, at)
  await shows(at, ...texts)
}

async function shows(at, ...texts) {
  for (const text of texts) {
    await until(`${at} to show ${text}`, () => page.evaluate(wanted => {
      const fields = [...document.querySelectorAll('input, textarea, option')].map(it => `${it.value}\n${it.textContent}`)
      return document.body.innerText.includes(wanted) || document.title.includes(wanted) || fields.some(it => it.includes(wanted))
    }, text))
  }
  await page.evaluate(() => document.querySelectorAll('details:not([open]) > summary').forEach(it => it.click()))
  await settled(page)
  const url = page.url()
  await unharmed(at)
  same(page.url(), url, 'the address')
}

let made = null
await step('hostile content is taken in everywhere', async () => { made = await poison() })

await step('lists show it as text', async () => {
  await visit('/', IMG)
  await visit('/sources', ...NAMES)
  await visit('/requests', IMG, '/"{}')
  await visit('/deliveries', '"><img')
  await visit('/events', 'hostile.event')
  await visit('/webhooks', IMG)
  await visit('/emails', IMG, 'constructor')
  await visit('/templates', IMG)
  await visit('/domains')
  await visit('/suppressions', '@example.net')
  await visit('/keys', ...NAMES)
  await visit('/settings', IMG)
  await visit('/credits', IMG, `req_${IMG}`, 'javascript:')
  await visit('/notices')
})

await step('requests show their path, headers and body as text, in each form', async () => {
  for (const [kind, id] of Object.entries(made.requests)) {
    await visit(`/requests/${id}`)
    for (const form of ['Pretty', 'Fields', 'Raw', 'Hex']) {
      const button = page.getByRole('button', {name: form, exact: true})
      if (await button.count() === 0) continue
      await button.click()
      await shows(`the ${kind} request, ${form}`, ...(form === 'Raw' ? [kind === 'nowhere' ? IMG : 'top.pwned='] : []))
    }
  }
  await visit(`/requests/${made.requests.html}`, '"><img src=x onerror=top.pwned=43>', '${top.pwned=47}', '<meta http-equiv="refresh"', 'javascript:top.pwned=44')
  await press(page, 'Raw')
  await shows('the raw body', MARKUP.split('\n')[3])
  const command = await page.evaluate(async () => {
    document.querySelectorAll('main input[type=checkbox]').forEach(it => it.click())
    return document.title
  })
  holds(command.includes('javascript:'), `the title to be text, not ${command}`)
  await press(page, 'Copy as curl')
  await unharmed('the copied request')
})

await step('sources, destinations and their dialogs show it as text', async () => {
  for (const source of made.sources) await visit(`/sources/${source.id}`, source.name)
  await visit(`/sources/${made.source.id}`, "x-'`|~")
  await press(page, 'Edit')
  await shows('the dialog of the destination', "x-'`|~")
  await page.keyboard.press('Escape')
  await press(page, 'Delete the source')
  await shows('the question about the source', `Delete ${IMG}?`)
  await answer(page, 'Keep as it is')
})

await step('deliveries, events and webhooks show it as text', async () => {
  await visit(`/deliveries/${made.delivery.id}`, 'svg')
  await visit(`/deliveries/${made.eventDelivery.id}`, 'svg')
  await visit(`/events/${made.event.id}`, 'dangerouslySetInnerHTML')
  await press(page, 'Raw')
  await shows('the raw event', '"onerror": "top.pwned=30"')
  for (const tab of ['attempts', 'deliveries', 'outage', 'test', 'settings', 'constructor', '__proto__', IMG]) {
    await visit(`/webhooks/${made.webhook.id}?tab=${encodeURIComponent(tab)}`, '<style>')
  }
  await go(page, `/webhooks/${made.webhook.id}?tab=settings`)
  await press(page, 'Edit')
  await shows('the form of the webhook', '<style>')
  await go(page, `/webhooks/${made.webhook.id}?tab=outage`)
  await press(page, 'Send a test')
  await shows('the answer to a test', '<meta http-equiv="refresh"')
})

await step('emails show it as text outside the frame, and inside it nothing runs or leaves', async () => {
  for (const tab of ['recipients', 'text', 'headers', 'attachments', 'source', 'events', 'constructor', '__proto__', IMG]) {
    await visit(`/emails/${made.email.id}?tab=${encodeURIComponent(tab)}`, IMG, NAMES[4])
  }
  for (const it of [made.email, made.cid]) {
    await visit(`/emails/${it.id}?tab=html`)
    await prod(page.locator('iframe.safe-html').contentFrame().locator('iframe'))
  }
})

await step('an attachment is downloaded under a harmless name', async () => {
  await go(page, `/emails/${made.email.id}?tab=attachments`)
  for (const row of await page.locator('tbody tr').all()) {
    const [download] = await Promise.all([page.waitForEvent('download'), press(row, 'Download')])
    holds(!/[<>"/\\:\u202e]/.test(download.suggestedFilename()), `a harmless name, not ${download.suggestedFilename()}`)
  }
})

await step('templates and their previews show it as text, and inside the frame nothing runs or leaves', async () => {
  for (const tab of ['settings', 'versions', 'constructor', '__proto__']) await visit(`/templates/${made.template.id}?tab=${tab}`, IMG)
  await visit(`/templates/${made.template.id}`, IMG)
  await prod(page.locator('iframe.safe-html').contentFrame().locator('iframe'))
})

await step('addresses of pages are hostile too', async () => {
  const bad = encodeURIComponent(`${IMG}<script>top.pwned=90</script>`)
  const names = ['source', 'state', 'method', 'path', 'text', 'since', 'type', 'status', 'url', 'from', 'webhook', 'destination', 'cursor', 'hours', 'tab', '__proto__', 'constructor']
  for (const at of ['/requests', '/deliveries', '/events', '/webhooks', '/emails', '/', '/credits', `/webhooks/${made.webhook.id}`]) {
    await visit(`${at}?${names.map(name => `${name}=${bad}`).join('&')}`)
  }
  const strays = ['/constructor', '/__proto__', `/${bad}`, '/%ff%00']
  for (const noun of ['sources', 'requests', 'deliveries', 'events', 'webhooks', 'emails', 'templates', 'constructor', '__proto__']) {
    // The second would make a page call another thing than its own.
    strays.push(`/${noun}/${bad}`, `/${noun}/..%2Fkeys`)
  }
  for (const at of strays) {
    expectStray(at)
    await visit(at, 'No such page')
  }
  for (const text of [`${IMG}<script>top.pwned=91</script>`, 'javascript:top.pwned=92']) {
    await page.keyboard.press('/')
    await page.locator('#search').fill(text)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', {name: 'Requests'}).waitFor()
    await shows('the search', text)
  }
})

/** Clicks whatever can be clicked in a frame of hostile HTML, after waiting for it to be drawn. */
async function prod(inner) {
  const url = page.url()
  const mail = inner.contentFrame()
  await until('the HTML to be drawn, with its own styles', () =>
    mail.locator('body').evaluate(it => getComputedStyle(it).outlineColor).then(it => it === STAIN, () => false))
  await unharmed('the HTML')
  for (const id of ['js', 'top', 'blank', 'submit', 'self']) {
    await mail.locator(`#${id}`).evaluate(it => it.click()).catch(() => {})
    await unharmed(`the HTML after a click on ${id}`)
    same(page.url(), url, `the address after a click on ${id}`)
  }
}

await end()
