//! How a request is judged by the rules of its source, before it is stored.

use restante_core::Timestamp;
use restante_core::intake::Rules;
use restante_core::message::Received;
use restante_store::Verdict;

use super::{mark, verify};
use crate::vault::{OpenFault, Vault};

/// A request that is rejected brings no value: whoever cannot sign must not make others' requests look like repeats.
///
/// # Errors
/// `OpenFault`: a secret of the source is damaged, and nothing can be said.
pub(super) fn judge(
    rules: &Rules,
    received: &Received,
    vault: &Vault,
    now: Timestamp,
) -> Result<Verdict, OpenFault> {
    if let Some(verification) = &rules.verification
        && let Err(doubt) = verify::verify(verification, received, vault, now)?
    {
        return Ok(Verdict::Rejected(doubt.to_string()));
    }
    let value = rules.dedupe.as_ref().and_then(|dedupe| mark::value(&dedupe.by, received));
    Ok(value.map_or(Verdict::Taken, Verdict::Marked))
}
