// An address that means nothing here.
import {html, Link, Page} from './all.js'
import {SearchBox} from '../parts/shell.js'

export const title = 'No such page'

export default function NotFound({path}) {
  return html`<${Page} title=${title} sub=${html`<span class="mono">${path}</span> is no page of this dashboard.`}>
    <p>Paste an id, a request key or a Message-ID to open what it names:</p><${SearchBox} id="search-here" label="Everything, from here"/>
    <p><${Link} class="button" href="/">To the overview<//></p>
  <//>`
}
