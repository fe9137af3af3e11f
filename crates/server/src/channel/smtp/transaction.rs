//! One mail over an open conversation: `MAIL`, `RCPT`, `DATA`, the content, the point of no return, the dot.

use std::sync::atomic::{AtomicBool, Ordering};

use restante_core::FailureKind;

use super::dots::{Dots, END};
use super::extensions::Extensions;
use super::fault::Fault;
use super::reply::{Answer, Malformed};
use super::session::{Session, positive};
use super::wire::Written;
use super::{DataSent, Envelope, Sent};

/// Content is written in pieces of this size, so that a large mail is not copied as a whole.
const PIECE_BYTES: usize = 64 * 1024;

/// Where an attempt passes from "nothing happened" to "it may have arrived".
pub(super) struct Point<'a> {
    /// Makes the passage durable.
    pub(super) data_sent: &'a dyn DataSent,
    /// Set before the first byte of the end leaves; read by whoever stops waiting.
    pub(super) is_passed: &'a AtomicBool,
}

/// What may be done with the connection afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Further mail.
    Clean,
    /// Further mail, after `RSET`.
    Dirty,
    /// Nothing: it broke, is about to, or the server waits for content that must not come.
    Closed,
}

/// Hands one mail over.
///
/// # Errors
/// `Fault` when the conversation ended before `MAIL` was accepted: nothing was sent, another connection may do.
pub(super) async fn hand_over(
    session: &mut Session,
    envelope: &Envelope,
    point: &Point<'_>,
) -> Result<(Sent, After), Fault> {
    let mail = match mail_line(envelope, &session.extensions) {
        Ok(line) => line,
        Err(refused) => return Ok((refused, After::Clean)),
    };
    if session.is_dirty {
        positive("RSET", session.wire.ask("RSET").await?)?;
        session.is_dirty = false;
    }
    if let Some(ended) = begin(session, &mail, &envelope.to).await? {
        return Ok(ended);
    }
    if let Some(sent) = write_content(session, &envelope.message).await {
        return Ok((sent, After::Closed));
    }
    if let Err(message) = point.data_sent.data_sent().await {
        let message = format!("that the mail leaves could not be recorded, so it did not: {message}");
        return Ok((Sent::Deferred { reply: None, kind: FailureKind::Network, message }, After::Closed));
    }
    // Recording took time, in which the server may have given up. An answer that comes now is none to the dot.
    if let Some(sent) = interruption(session).await {
        return Ok((sent, After::Closed));
    }
    point.is_passed.store(true, Ordering::SeqCst);
    Ok(end(session).await)
}

/// `MAIL`, `RCPT` and `DATA`; what they came to unless the server waits for the content.
///
/// With PIPELINING all three leave in one write, and `DATA` may then be answered 354 although nobody is to get the
/// content. The connection is dropped in that case. RFC 2920 has a lone dot sent instead; a server that is wrong
/// enough to wait for it may be wrong enough to deliver an empty mail.
async fn begin(session: &mut Session, mail: &str, to: &str) -> Result<Option<(Sent, After)>, Fault> {
    let steps = [
        ("MAIL", format!("{mail}\r\n")),
        ("RCPT", format!("RCPT TO:<{to}>\r\n")),
        ("DATA", "DATA\r\n".into()),
    ];
    if session.wire.is_interrupted().await? {
        return Err(unasked(session).await);
    }
    let pipelining = session.extensions.pipelining;
    if pipelining {
        let lines: String = steps.iter().map(|(_, line)| line.as_str()).collect();
        session.wire.say(lines.as_bytes()).await?;
    }
    let (mut refused, mut is_closing) = (None, false);
    for (command, line) in steps {
        let asked = async {
            if !pipelining {
                session.wire.say(line.as_bytes()).await?;
            }
            session.wire.answer().await
        };
        let answer = match asked.await {
            Ok(answer) => answer,
            Err(fault) if command == "MAIL" => return Err(fault),
            Err(fault) => return Ok(Some((refused.unwrap_or_else(|| fault.into()), After::Closed))),
        };
        if command == "MAIL" && answer.code == 421 {
            return Err(Fault::answered(command, &answer));
        }
        let waits_for_content = command == "DATA" && answer.code == 354;
        is_closing |= answer.code == 421 || (waits_for_content && refused.is_some());
        let is_yes = if command == "DATA" { waits_for_content } else { answer.is_positive() };
        if !is_yes && refused.is_none() {
            refused = Some(no(command, &answer));
        }
        if refused.is_some() && !pipelining {
            break;
        }
    }
    let after = if is_closing { After::Closed } else { After::Dirty };
    Ok(refused.map(|sent| (sent, after)))
}

/// All of the content but its end; what it came to when it did not get that far.
async fn write_content(session: &mut Session, message: &[u8]) -> Option<Sent> {
    let mut dots = Dots::new();
    let mut out = Vec::with_capacity(PIECE_BYTES.min(message.len()) + PIECE_BYTES / 8);
    let mut written = Written::All;
    for piece in message.chunks(PIECE_BYTES) {
        out.clear();
        dots.stuff(piece, &mut out);
        match session.wire.write(&out).await {
            Ok(Written::All) => {}
            Ok(Written::Interrupted) => {
                written = Written::Interrupted;
                break;
            }
            Err(fault) => return Some(fault.into()),
        }
    }
    if written == Written::All {
        written = match session.wire.flush().await {
            Ok(written) => written,
            Err(fault) => return Some(fault.into()),
        };
    }
    match written {
        Written::All => interruption(session).await,
        Written::Interrupted => Some(early(session).await),
    }
}

/// What the server said about the mail before its end, if it did.
async fn interruption(session: &mut Session) -> Option<Sent> {
    match session.wire.is_interrupted().await {
        Ok(false) => None,
        Ok(true) => Some(early(session).await),
        Err(fault) => Some(fault.into()),
    }
}

/// Reads an answer that came before the end of the content: it can only be a no.
async fn early(session: &mut Session) -> Sent {
    match session.wire.answer().await {
        Ok(answer) if answer.code >= 400 => no("the content", &answer),
        Ok(_) => Fault::from(Malformed::Unasked).into(),
        Err(fault) => fault.into(),
    }
}

/// Reads what an idle server said: most often that it closes.
async fn unasked(session: &mut Session) -> Fault {
    match session.wire.answer().await {
        Ok(answer) if answer.code == 421 => Fault::answered("the connection", &answer),
        Ok(_) => Malformed::Unasked.into(),
        Err(fault) => fault,
    }
}

/// The end of the content and its answer. From here on whatever cannot be read may have been a yes.
async fn end(session: &mut Session) -> (Sent, After) {
    let answered = match session.wire.say(END).await {
        Ok(()) => session.wire.answer().await,
        Err(fault) => Err(fault),
    };
    match answered {
        Ok(answer) if answer.is_positive() => {
            session.mails += 1;
            (Sent::Accepted(answer.reply()), After::Clean)
        }
        Ok(answer) if answer.code == 421 => (no("the mail", &answer), After::Closed),
        Ok(answer) if answer.code >= 400 => (no("the mail", &answer), After::Dirty),
        Ok(answer) => {
            let message =
                format!("the server answered {} to the mail, which says neither yes nor no", answer.code);
            (Sent::Uncertain { message }, After::Closed)
        }
        Err(fault) => (Sent::Uncertain { message: format!("no answer to the mail: {fault}") }, After::Closed),
    }
}

/// A no to `command`: final from 500 on. A yes of the wrong kind is one that may be mended.
///
/// Only a no to `RCPT` is about the recipient's mailbox by its basic code; any other without a status of its own gets
/// the one that says nothing (RFC 3463, X.0.0), or a sender that is refused would condemn whoever he writes to.
fn no(command: &str, answer: &Answer) -> Sent {
    let message = format!("the server answered {} to {command}", answer.code);
    let mut reply = answer.reply();
    if command != "RCPT" {
        let class = if answer.code >= 500 { 5 } else { 4 };
        reply.enhanced = reply.enhanced.or(Some((class, 0, 0)));
    }
    if answer.code >= 500 {
        Sent::Refused { reply, message }
    } else {
        Sent::Deferred { reply: Some(reply), kind: FailureKind::Smtp, message }
    }
}

/// `MAIL FROM` with what the server wants to know about the message.
///
/// Eight-bit content goes out as it is also to a server that does not offer 8BITMIME: there are hardly any that would
/// harm it, and to rewrite it would break its signature.
///
/// # Errors
/// The refusal of a mail that this server cannot take.
fn mail_line(envelope: &Envelope, extensions: &Extensions) -> Result<String, Sent> {
    let bytes = envelope.message.len();
    if let Some(Some(limit)) = extensions.size.filter(|limit| limit.is_some_and(|limit| limit < bytes as u64))
    {
        let message = format!("the message has {bytes} bytes and the server takes at most {limit}");
        return Err(Sent::refused_unasked(552, (5, 3, 4), message));
    }
    if envelope.utf8 && !extensions.utf8 {
        let message = "an address needs SMTPUTF8, which the server does not offer".to_owned();
        return Err(Sent::refused_unasked(553, (5, 6, 7), message));
    }
    let mut line = format!("MAIL FROM:<{}>", envelope.from);
    if extensions.size.is_some() {
        line.push_str(&format!(" SIZE={bytes}"));
    }
    if extensions.eight_bit && !envelope.message.is_ascii() {
        line.push_str(" BODY=8BITMIME");
    }
    if envelope.utf8 {
        line.push_str(" SMTPUTF8");
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use restante_core::smtp::{Bounce, BounceType};

    use super::*;

    #[test]
    fn only_a_no_to_the_recipient_condemns_the_mailbox() {
        let bare = Answer { code: 550, lines: vec!["no such thing".into()] };
        let told = Answer { code: 550, lines: vec!["5.1.1 no such user".into()] };
        let table = [
            ("MAIL", &bare, BounceType::Undetermined),
            ("DATA", &bare, BounceType::Undetermined),
            ("the mail", &bare, BounceType::Undetermined),
            ("RCPT", &bare, BounceType::Hard),
            ("the mail", &told, BounceType::Hard),
        ];
        for (command, answer, expected) in table {
            let Sent::Refused { reply, .. } = no(command, answer) else { panic!("550 is final") };
            assert_eq!(reply.bounce().map(Bounce::kind), Some(expected), "{command}");
        }
    }
}
