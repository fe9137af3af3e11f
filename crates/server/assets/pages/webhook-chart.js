// Attempts of a webhook over the last day, where the server keeps statistics.
import {useGet} from '../lib/api.js'
import {html, useMemo} from '../lib/dom.js'
import {count, plural} from '../lib/format.js'
import {Chart} from '../parts/chart.js'

export function AttemptCharts({id}) {
  const {data} = useGet('/v1/stats', {hours: 24, webhook: id}, {every: 60_000})
  const drawn = useMemo(() => {
    if (!data) return null
    const values = name => data.points.map(it => it[name])
    return {
      at: data.points.map(it => Date.parse(it.at)),
      results: [{label: 'delivered', color: 'good', values: values('delivered')}, {label: 'failed attempts', color: 'bad', values: values('attempts_failed')}],
      times: [{label: 'p50', color: 'accent', values: values('duration_p50_ms')}, {label: 'p95', color: 'warn', values: values('duration_p95_ms')}],
    }
  }, [data])
  if (!drawn) return null
  const {totals} = data
  return html`<div class="charts">
    <${Chart} title="Deliveries, 24 h" at=${drawn.at} series=${drawn.results} summary=${`${count(totals.delivered)} delivered, ${plural(totals.attempts_failed, 'failed attempt')}`}/>
    <${Chart} title="Duration of attempts, ms" at=${drawn.at} series=${drawn.times} summary=${`p50 ${count(totals.duration_p50_ms)}, p95 ${count(totals.duration_p95_ms)}`}/></div>`
}
