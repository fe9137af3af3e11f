import {api, Copy, Facts, Fault, html, navigate, Page, Section, Time, toast, useGet, useState} from './all.js'
import {Act, Awaited, Choice, Once} from './act.js'
import {Fields} from './fields.js'
import {scheduleText, WEBHOOK_FIELDS} from './webhook-fields.js'
import {AttemptCharts, Health} from './webhook-health.js'
import {Attempts, Deliveries} from './webhook-log.js'
import {Outage} from './webhook-outage.js'
import {Test} from './webhook-test.js'

export const title = 'Webhook'

const PAUSE = {
  title: 'Pause this webhook?',
  body: 'What is pending ends now, and events that come meanwhile are skipped. It never resumes by itself; a recovery then delivers what was skipped.',
}
const ROTATE = {
  title: 'Make a new signing secret?',
  body: 'It is shown once. The old one goes on signing beside it for 24 hours, so that the receiver can change over without a gap.',
}
const remove = url => ({
  title: 'Delete this webhook?',
  body: `${url} receives nothing any more. What is pending is cancelled, and a running replay ends. This cannot be taken back.`,
})

const TABS = [['attempts', 'Attempts'], ['deliveries', 'Deliveries'], ['outage', 'Outage: test, activate, replay'], ['test', 'Test'], ['settings', 'Settings']]

export default function Webhook({id, query}) {
  const path = `/v1/webhooks/${encodeURIComponent(id)}`
  const got = useGet(path, null, {every: 5000})
  const {data: webhook, error, reload} = got
  const notices = useGet('/v1/notices', {limit: 100}, {every: 60_000})
  const stats = useGet('/v1/stats/endpoints', {hours: 24}, {every: 60_000})
  const [secret, setSecret] = useState(null)
  if (!webhook) return html`<${Page} title=${title}><${Awaited} of=${got} what=${`the webhook ${id}`}/><//>`
  const change = async values => {
    await api.patch(path, values)
    reload()
  }
  const paused = webhook.status === 'paused'
  const actions = html`
    ${paused ? html`<${Act} key="resume" label="Set active" primary run=${() => change({status: 'active'})} done="The webhook is active"/>`
      : html`<${Act} key="pause" label="Pause" ask=${PAUSE} run=${() => change({status: 'paused'})} done="The webhook is paused"/>`}
    <${Act} label="Rotate secret" ask=${ROTATE} run=${async () => setSecret((await api.post(`${path}/rotate-secret`)).secret)}/>
    <${Act} label="Delete" danger ask=${remove(webhook.url)} run=${async () => {
      await api.del(path)
      toast('The webhook is deleted')
      navigate('/webhooks')
    }}/>`
  const tab = TABS.some(([name]) => name === query.tab) ? query.tab : 'attempts'
  return html`<${Page} title=${title} heading=${html`Webhook <code class="wrap">${webhook.url}</code>`} actions=${actions}
      sub=${html`<code>${webhook.id}</code> <${Copy} text=${webhook.id} class="small" label="Copy id"/> ${webhook.description}`}>
    <${Fault} error=${error} retry=${reload}/>
    ${secret && html`<${Once} what="The new signing secret" secret=${secret} onClose=${() => setSecret(null)}>
      Until the old one ends, 24 hours from now, each attempt carries a signature of both.<//>`}
    <${Health} webhook=${webhook} notices=${notices.data?.data} stats=${stats.data?.data.find(it => it.endpoint_id === webhook.id)}/>
    <${Choice} name="tab" label="Parts of this webhook" options=${TABS} drop=${['status', 'state']}/>
    ${tab === 'attempts' && html`<${AttemptCharts} id=${webhook.id}/><${Attempts} path=${path}/>`}
    ${tab === 'deliveries' && html`<${Deliveries} path=${path} paused=${paused}/>`}
    ${tab === 'outage' && html`<${Outage} key=${webhook.id} webhook=${webhook} path=${path} onChange=${reload}/>`}
    ${tab === 'test' && html`<${Test} webhook=${webhook} path=${path} onDone=${reload}/>`}
    ${tab === 'settings' && html`<${Settings} webhook=${webhook} change=${change}/>`}
  <//>`
}

function Settings({webhook, change}) {
  const [old, setOld] = useState(null)
  const save = async values => {
    await change(values)
    toast('The webhook is changed')
    setOld(null)
  }
  if (old) {
    return html`<${Section} title="Change the webhook"><p>A new URL ends a failing run. A new schedule moves no planned attempt: the next failure uses it.</p>
      <${Fields} fields=${WEBHOOK_FIELDS} of=${old} submit="Save" run=${save} onCancel=${() => setOld(null)}/><//>`
  }
  const headers = Object.keys(webhook.headers)
  return html`<${Section} title="Settings" actions=${html`<button type="button" onClick=${() => setOld(webhook)}>Edit</button>`}>
    <${Facts} of=${[
      ['URL', html`<code class="wrap">${webhook.url}</code>`],
      ['Events', html`<code class="wrap">${webhook.events.join(', ')}</code>`],
      ['Description', webhook.description],
      ['Schedule', html`<code class="wrap">${scheduleText(webhook.schedule)}</code>`],
      ['Headers', headers.length > 0 ? html`<code class="wrap">${headers.join(', ')}</code>, values are never read back` : 'none of its own'],
      ['Limits', `${webhook.max_in_flight} attempts at the same time, ${webhook.rate_per_second ?? 'any number'} per second, ${webhook.timeout_seconds} s for each`],
      ['Created', html`<${Time} exactly at=${webhook.created_at}/>`],
      ['Changed', html`<${Time} exactly at=${webhook.updated_at}/>`],
    ]}/><//>`
}
