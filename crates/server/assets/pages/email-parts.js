// Parts of the pages of emails.
import {html} from '../lib/dom.js'

export const addressText = ({email, name}) => (name ? `${name} <${email}>` : email)

/** Says when mail goes nowhere, or when the key sees only a part of it. */
export function CaptureBanner({server}) {
  if (!server) return null
  return html`
    ${server.mail_transport === 'capture' && html`<p class="note warn" role="note"><strong>Mail is captured: it is kept and shown here, and goes nowhere.</strong> To send it, set <code>RESTANTE_SMTP_URL</code> (a relay) or
      ${' '}<code>RESTANTE_SMTP=direct</code> and start the server again.</p>`}
    ${server.key?.mode === 'test' && html`<p class="note warn" role="note">This session's key is a test key: it sees emails of the test mode only, and those always go nowhere.</p>`}`
}
