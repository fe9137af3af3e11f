//! From an email as it was read to the bytes that are stored.

use restante_core::email::form::Content;
use restante_core::email::{Address, Email, Role};
use restante_core::id::{EmailId, WorkspaceId};
use restante_core::{Timestamp, id};
use restante_store::email::{Details, Frozen, ID_TEXT_BYTES};
use serde_json::value::RawValue;

use super::input::{self, Read};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::templates;
use crate::mail::compose::{Identity, compose};
use crate::mail::verified::verified_domain;

/// Emails larger than this are composed where threads may block, in bytes.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// # Errors
/// 403 when mail is taken from verified domains only and the sender's is none.
pub(crate) async fn check_sender(
    api: &ApiState,
    workspace: WorkspaceId,
    sender: &Address,
) -> Result<(), ApiError> {
    if !api.require_verified_domains {
        return Ok(());
    }
    let domain = sender.domain();
    if verified_domain(api.store.as_ref(), workspace, domain).await?.is_some() {
        return Ok(());
    }
    let message =
        format!("{domain} is not a verified domain of this workspace: add it with POST /v1/domains");
    Err(ApiError::forbidden("domain_not_verified", message).on("from"))
}

/// The email with what its template gives; and which one that is.
///
/// # Errors
/// 404 or 422 when there is no such template, or it gives no email.
pub(crate) async fn filled(
    api: &ApiState,
    workspace: WorkspaceId,
    read: Read,
) -> Result<(Email, Option<(String, u32)>), ApiError> {
    let Read { mut email, template } = read;
    let Some(template) = template else { return Ok((email, None)) };
    let (rendered, used) = templates::render_for(api, workspace, &template).await?;
    email.subject = email.subject.or(rendered.subject);
    (email.html, email.text) = (rendered.html, rendered.text);
    input::check(&email, Content::Own)?;
    Ok((email, Some(used)))
}

/// Those an email goes to, each once: a mailbox that is named again gets no second copy.
pub(crate) fn recipients(email: &Email) -> Vec<(Role, Address)> {
    let mut seen = std::collections::BTreeSet::new();
    let lists = [(Role::To, &email.to), (Role::Cc, &email.cc), (Role::Bcc, &email.bcc)];
    let all = lists.into_iter().flat_map(|(role, list)| list.iter().map(move |it| (role, it.clone())));
    all.filter(|(_, address)| seen.insert(address.suppression_key())).collect()
}

/// Makes the bytes of an email. `date` is what it says of its time.
///
/// # Errors
/// 422 for what cannot be composed.
pub(crate) async fn freeze(
    email: Email,
    template: Option<(String, u32)>,
    date: Timestamp,
) -> Result<Frozen, ApiError> {
    let details = details(&email, template);
    let sender = email.from.email.clone();
    let size = email.html.as_ref().map_or(0, String::len)
        + email.text.as_ref().map_or(0, String::len)
        + email.attachments.iter().map(|it| it.content.len()).sum::<usize>();
    let place = placeholder();
    let work = {
        let place = place.clone();
        move || compose(&email, Identity { message_id: &place, date })
    };
    let mime = if size > INLINE_BYTES_MAX {
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| ApiError::broken(format!("composing an email: {error}")))?
    } else {
        work()
    };
    let mime = mime.map_err(|fault| ApiError::invalid("invalid_email", fault.to_string()))?;
    // At the start of a line, where nothing of the caller's can stand.
    let before = "\r\nMessage-ID: <";
    let id_at = position(&mime, format!("{before}{place}@").as_bytes())
        .map(|at| at + before.len())
        .ok_or_else(|| ApiError::broken("a composed email has no place for its id"))?;
    Ok(Frozen { sender, mime, id_at, details })
}

/// Stands where an email's id will: as long, and the id of none.
fn placeholder() -> String {
    let text = EmailId::new(id::Key::from_value(0), id::Tail::from_bits(0)).to_string();
    debug_assert_eq!(text.len(), ID_TEXT_BYTES);
    text
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn details(email: &Email, template: Option<(String, u32)>) -> Details {
    Details {
        from: email.from.clone().into(),
        reply_to: email.reply_to.iter().cloned().map(Into::into).collect(),
        subject: email.subject.clone(),
        headers: email.headers.clone(),
        tags: email.tags.clone(),
        metadata: email.metadata.clone().and_then(|json| RawValue::from_string(json).ok()),
        template,
        has_html: email.html.is_some(),
        has_text: email.text.is_some(),
        attachments: u32::try_from(email.attachments.len()).unwrap_or(u32::MAX),
    }
}
