import {api, Empty, html, Page, toast, words} from './all.js'
import {Act, Listed, shell, textOf, timeOf, useList} from './act.js'
import {Fields} from './fields.js'

export const title = 'Suppressions'

const ask = ({email, reason}) => ({
  title: `Send mail to ${email} again?`,
  body: reason === 'hard_bounce' ? 'Its mail server said that there is no such mailbox. If that is still so, the next email bounces and it is suppressed again.' : 'Emails that were not sent meanwhile are not made up for.',
})

export default function Suppressions() {
  const list = useList('/v1/suppressions')
  const add = async values => {
    const {email} = await api.post('/v1/suppressions', values)
    toast(`${email} gets no mail any more`)
    list.reload()
  }
  const remove = async id => {
    await api.del(`/v1/suppressions/${id}`)
    list.reload()
  }
  const columns = [
    textOf('Mailbox', 'email'),
    {label: 'Why', cell: it => (it.reason === 'manual' ? 'put here by hand' : words(it.reason))},
    textOf('What was said', 'detail'),
    timeOf('Since', 'created_at'),
    {label: 'Act', cell: it => html`<${Act} small label="Remove" disabled=${!it.removable} ask=${ask(it)} run=${() => remove(it.id)} done="It gets mail again"/>`},
  ]
  return html`<${Page} title=${title} sub="Mailboxes that get no mail: those that bounced for good, and those that you put here.">
    <${Fields} key=${list.data?.data[0]?.id} fields=${[{name: 'email', label: 'Mailbox', example: 'ada@example.net'}]} submit="Suppress it" run=${add}/>
    <${Listed} list=${list} name="suppressions" columns=${columns}
      empty=${html`<${Empty} title="Nothing is suppressed." text="Hard bounces come here by themselves." command=${shell('suppressions add ada@example.net')}/>`}/>
  <//>`
}
