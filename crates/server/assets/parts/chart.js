// A chart over time, drawn as SVG, with the same numbers as text.
import {html, useEffect, useRef, useState} from '../lib/dom.js'
import {count} from '../lib/format.js'
import {exact, zone} from '../lib/time.js'

const ROWS = 60
const LEFT = 52
const BOTTOM = 20
const TOP = 6

/** Round values from 0 up to at least `high`, three or four of them. */
function ticks(high) {
  const rough = high / 3
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map(it => it * power).find(it => it >= rough)
  return Array.from({length: Math.ceil(high / step) + 1}, (_, index) => index * step)
}

/** The path of a line through the values that are there. */
function line(values, x, y) {
  let path = ''
  let pen = false
  values.forEach((value, index) => {
    if (value === null || value === undefined) return
    // A first point that stays alone is a dot.
    path += `${pen ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}${pen ? '' : 'h.01'}`
    pen = true
  })
  return path
}

/**
 * `at`: moments in ms; `series`: `{label, values, color: 'accent'|'good'|'bad'|'warn'|'dim', format?, fill?, dash?}`.
 * `title` names it; `summary` says in a sentence what it shows.
 */
export function Chart({title, at, series, summary, format = count, height = 150}) {
  const box = useRef(null)
  const [width, setWidth] = useState(0)
  const [spot, setSpot] = useState(null)
  const where = zone.use()
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)))
    observer.observe(box.current)
    return () => observer.disconnect()
  }, [])

  const last = at.length - 1
  const scale = ticks(Math.max(1, ...series.flatMap(it => it.values.map(value => value ?? 0))))
  const x = index => LEFT + (last > 0 ? (index / last) * (width - LEFT - 8) : 0)
  const y = value => TOP + (height - TOP - BOTTOM) * (1 - value / scale.at(-1))
  const clock = moment => exact(moment, where).slice(11, 16)
  const steps = Math.max(1, Math.floor(width / 130))
  const marks = last > 0 ? Array.from({length: steps + 1}, (_, step) => Math.round((step / steps) * last)) : []
  const follow = event => {
    const left = event.currentTarget.getBoundingClientRect().left
    const index = Math.round(((event.clientX - left - LEFT) / (width - LEFT - 8)) * last)
    setSpot(Math.min(last, Math.max(0, index)))
  }
  const told = spot !== null && spot <= last ? spot : null
  const text = (it, index) => (it.format ?? format)(it.values[index])
  const rows = at.map((_, index) => last - index).slice(0, ROWS)

  return html`<figure class="chart"><figcaption><strong>${title}</strong>${summary && html` <span class="dim">${summary}</span>`}</figcaption>
    <div ref=${box} class="plot" aria-hidden="true">${width > 0 && html`<svg width=${width} height=${height} onPointerMove=${follow} onPointerLeave=${() => setSpot(null)}>
      ${scale.map(value => html`<g key=${value}><line class="grid" x1=${LEFT} x2=${width - 8} y1=${y(value)} y2=${y(value)}/><text x=${LEFT - 6} y=${y(value) + 4} text-anchor="end">${format(value)}</text></g>`)}
      ${marks.map(index => html`<text key=${index} x=${x(index)} y=${height - 4} text-anchor=${index === 0 ? 'start' : index === last ? 'end' : 'middle'}>${clock(at[index])}</text>`)}
      ${series.map(it => it.fill && html`<path key=${`fill ${it.label}`} class=${`area ${it.color}`} d=${`${line(it.values.map(value => value ?? 0), x, y)}L${x(last)} ${y(0)}L${x(0)} ${y(0)}Z`}/>`)}
      ${series.map(it => html`<path key=${it.label} class=${`line ${it.color}${it.dash ? ' dash' : ''}`} d=${line(it.values, x, y)}/>`)}
      ${told !== null && html`<line class="cross" x1=${x(told)} x2=${x(told)} y1=${TOP} y2=${height - BOTTOM}/>`}
    </svg>`}</div>
    <p class="legend" aria-hidden="true">${told !== null && html`<span class="dim">${exact(at[told], where).slice(5, 16)}</span>`}
      ${series.map(it => html`<span key=${it.label} class=${it.color}>${it.dash ? '┄' : '—'} ${it.label}${told !== null && html` <b>${text(it, told)}</b>`}</span>`)}</p>
    <details><summary>Numbers</summary><table class="table plain-table"><caption class="unseen">${title}, newest first</caption>
      <thead><tr><th scope="col">at</th>${series.map(it => html`<th scope="col" key=${it.label}>${it.label}</th>`)}</tr></thead>
      <tbody>${rows.map(row => html`<tr key=${at[row]}><td>${exact(at[row], where)}</td>${series.map(it => html`<td key=${it.label}>${text(it, row)}</td>`)}</tr>`)}</tbody></table></details>
  </figure>`
}
