//! Addresses as they are written in commands.

use super::{Envelope, Sent};

/// The refusal of an envelope one of whose paths cannot stand between angle brackets without becoming something else.
pub(super) fn refusal(envelope: &Envelope) -> Option<Sent> {
    let (is_bad_sender, is_bad_recipient) = (
        !is_writable(&envelope.from, envelope.utf8),
        envelope.to.is_empty() || !is_writable(&envelope.to, envelope.utf8),
    );
    let (whose, detail) = match (is_bad_sender, is_bad_recipient) {
        (true, _) => ("sender's", 7),
        (false, true) => ("recipient's", 3),
        (false, false) => return None,
    };
    let message = format!("the {whose} address cannot be written in SMTP");
    Some(Sent::refused_unasked(553, (5, 1, detail), message))
}

/// Control characters would begin another command, brackets and spaces outside of quotes another parameter.
fn is_writable(path: &str, utf8: bool) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for char in path.chars() {
        if char.is_control() || !(utf8 || char.is_ascii()) {
            return false;
        }
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '<' | '>' | ' ' if !is_quoted => return false,
            _ => {}
        }
    }
    !is_quoted && !is_escaped
}
