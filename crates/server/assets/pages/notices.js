import {Empty, html, Page, State, Time} from './all.js'
import {idOf, Listed, shell, timeOf, useList} from './act.js'

export const title = 'Notices'

const KINDS = {
  webhook_degraded: ['degraded', 'It kept failing. It still receives everything.'],
  webhook_paused: ['paused', 'It failed for too long and receives nothing until it is set active.'],
}

const columns = [
  timeOf('When', 'created_at', {exactly: true}),
  {label: 'What', cell: it => html`<${State} of=${KINDS[it.kind]?.[0] ?? it.kind}/>`},
  {label: 'Meaning', cell: it => KINDS[it.kind]?.[1] ?? '–'},
  idOf('Webhook', 'webhook_id'),
  {label: 'Mailed to the owners', cell: it => (it.mailed_at ? html`<${Time} at=${it.mailed_at}/>` : html`<span class="dim">not mailed</span>`)},
]

export default function Notices() {
  const list = useList('/v1/notices', null, {every: 30_000})
  return html`<${Page} title=${title} sub="What the owners of the workspace were told about webhooks.">
    <${Listed} list=${list} name="notices" columns=${columns} rowHref=${it => `/webhooks/${it.webhook_id}?tab=outage`}
      empty=${html`<${Empty} title="No notices." text="One appears when a webhook becomes degraded, or is paused because it kept failing. The owners in the settings get it by mail." command=${shell('notices list')}/>`}/>
  <//>`
}
