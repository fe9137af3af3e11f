use proptest::prelude::*;

use super::*;

/// Reads `550 5.1.1 text`; the enhanced code may be missing.
fn reply(line: &str) -> Reply {
    let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (status, after) = rest.split_once(' ').unwrap_or((rest, ""));
    let numbers: Vec<u16> = status.split('.').filter_map(|number| number.parse().ok()).collect();
    let (enhanced, text) = match numbers[..] {
        [class, subject, detail] => (Some((u8::try_from(class).unwrap(), subject, detail)), after),
        _ => (None, rest),
    };
    Reply { code: code.parse().unwrap(), enhanced, text: text.to_owned() }
}

#[test]
fn the_first_digit_decides() {
    let table = [
        (Verdict::Accepted, [200, 220, 250, 251, 252, 334, 354, 399]),
        (Verdict::Deferred, [400, 421, 432, 450, 451, 452, 455, 499]),
        (Verdict::Refused, [500, 521, 530, 550, 552, 554, 556, 599]),
        (Verdict::Deferred, [0, 1, 99, 100, 199, 600, 999, 65_535]),
    ];
    for (verdict, codes) in table {
        for code in codes {
            let reply = Reply { code, enhanced: Some((5, 1, 1)), text: String::new() };
            assert_eq!(reply.verdict(), verdict, "{code}");
            assert_eq!(reply.bounce().is_none(), verdict == Verdict::Accepted, "{code}");
        }
    }
}

#[test]
fn an_enhanced_code_says_why() {
    let table = [
        ("550 5.0.0", Bounce::Undetermined),
        ("550 5.1.0", Bounce::Undetermined),
        ("550 5.1.1", Bounce::InvalidRecipient),
        ("550 5.1.2", Bounce::InvalidRecipient),
        ("501 5.1.3", Bounce::InvalidRecipient),
        ("550 5.1.4", Bounce::Undetermined),
        ("550 5.1.5", Bounce::Undetermined),
        ("550 5.1.6", Bounce::InvalidRecipient),
        ("501 5.1.7", Bounce::Admin),
        ("550 5.1.8", Bounce::Admin),
        ("550 5.1.9", Bounce::Undetermined),
        ("556 5.1.10", Bounce::InvalidRecipient),
        ("550 5.2.0", Bounce::Undetermined),
        ("550 5.2.1", Bounce::Soft),
        ("552 5.2.2", Bounce::MailboxFull),
        ("552 5.2.3", Bounce::TooLarge),
        ("550 5.2.4", Bounce::Undetermined),
        ("550 5.3.0", Bounce::Undetermined),
        ("552 5.3.1", Bounce::Soft),
        ("521 5.3.2", Bounce::Soft),
        ("554 5.3.3", Bounce::Undetermined),
        ("552 5.3.4", Bounce::TooLarge),
        ("554 5.3.5", Bounce::Undetermined),
        ("550 5.4.1", Bounce::Undetermined),
        ("550 5.4.4", Bounce::Undetermined),
        ("554 5.4.6", Bounce::Undetermined),
        ("550 5.4.7", Bounce::Undetermined),
        ("503 5.5.1", Bounce::Undetermined),
        ("501 5.5.2", Bounce::Undetermined),
        ("550 5.5.3", Bounce::Undetermined),
        ("501 5.5.4", Bounce::Undetermined),
        ("554 5.6.0", Bounce::Undetermined),
        ("550 5.6.7", Bounce::Undetermined),
        ("550 5.7.0", Bounce::Block),
        ("554 5.7.1", Bounce::Block),
        ("550 5.7.2", Bounce::Block),
        ("538 5.7.3", Bounce::Admin),
        ("550 5.7.4", Bounce::Admin),
        ("550 5.7.7", Bounce::Admin),
        ("535 5.7.8", Bounce::Admin),
        ("534 5.7.9", Bounce::Admin),
        ("523 5.7.10", Bounce::Admin),
        ("538 5.7.11", Bounce::Admin),
        ("550 5.7.12", Bounce::Admin),
        ("525 5.7.13", Bounce::Admin),
        ("554 5.7.14", Bounce::Admin),
        ("550 5.7.15", Bounce::Block),
        ("550 5.7.17", Bounce::Block),
        ("550 5.7.20", Bounce::Block),
        ("550 5.7.23", Bounce::Block),
        ("550 5.7.25", Bounce::Block),
        ("550 5.7.26", Bounce::Block),
        ("550 5.7.27", Bounce::Admin),
        ("550 5.7.28", Bounce::Block),
        ("550 5.7.30", Bounce::Admin),
        ("550 5.7.509", Bounce::Block),
        ("550 5.8.1", Bounce::Undetermined),
        ("550 5.300.1", Bounce::Undetermined),
        // The enhanced code goes before the words.
        ("550 5.1.1 blocked as spam", Bounce::InvalidRecipient),
        ("554 5.7.1 user unknown", Bounce::Block),
        // A class that is not the reply's.
        ("550 4.1.1", Bounce::Undetermined),
        ("550 2.1.1", Bounce::Undetermined),
        ("550 4.2.2", Bounce::MailboxFull),
        ("554 4.7.1", Bounce::Block),
    ];
    for (line, bounce) in table {
        assert_eq!(reply(line).bounce(), Some(bounce), "{line}");
    }
}

#[test]
fn without_an_enhanced_code_the_basic_one_and_some_words_say_why() {
    let table = [
        ("500 unrecognised command", Bounce::Undetermined),
        ("501 syntax error", Bounce::Undetermined),
        ("503 bad sequence", Bounce::Undetermined),
        ("521 this host takes no mail", Bounce::Undetermined),
        ("530 authentication required", Bounce::Admin),
        ("534 too weak", Bounce::Admin),
        ("535 bad credentials", Bounce::Admin),
        ("538 encryption required", Bounce::Admin),
        ("550", Bounce::NoRecipient),
        ("550 no such user here", Bounce::NoRecipient),
        ("550 Requested action not taken: mailbox unavailable", Bounce::NoRecipient),
        ("550 Recipient address rejected: User unknown", Bounce::NoRecipient),
        ("550 Unrouteable address", Bounce::NoRecipient),
        ("550 relay not permitted", Bounce::Relaying),
        ("550 Relaying denied", Bounce::Relaying),
        ("550 High probability of SPAM", Bounce::Spam),
        ("550 listed at the blocklist of example.org", Bounce::Spam),
        ("550 Access denied", Bounce::Block),
        ("550 blocked by our policy", Bounce::Block),
        ("550 Sender verify failed", Bounce::Block),
        ("550 SPF check failed", Bounce::Block),
        ("550 too many messages today", Bounce::Block),
        ("550 mailbox quota exceeded", Bounce::MailboxFull),
        ("550 Mailbox is full", Bounce::MailboxFull),
        ("550 this account is disabled", Bounce::Soft),
        ("550 no such user: blocker@example.org", Bounce::Block),
        ("551 user not local", Bounce::NoRecipient),
        ("551 we do not relay", Bounce::Relaying),
        ("552 exceeded storage allocation", Bounce::Soft),
        ("552 message size exceeds fixed maximum", Bounce::Soft),
        ("553 mailbox name not allowed", Bounce::NoRecipient),
        ("553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)", Bounce::Relaying),
        ("554 transaction failed", Bounce::Undetermined),
        ("554 user unknown", Bounce::Undetermined),
        ("554 message rejected as spam", Bounce::Spam),
        ("554 blocked", Bounce::Block),
        ("555 parameters not recognised", Bounce::Undetermined),
        ("556 domain does not accept mail", Bounce::InvalidRecipient),
        ("571 who knows", Bounce::Undetermined),
    ];
    for (line, bounce) in table {
        assert_eq!(reply(line).bounce(), Some(bounce), "{line}");
    }
}

#[test]
fn a_delay_is_never_hard() {
    let table = [
        ("421", Bounce::Transient),
        ("450", Bounce::Transient),
        ("450 user unknown", Bounce::Transient),
        ("450 4.1.1", Bounce::Transient),
        ("450 5.1.1", Bounce::Transient),
        ("451 4.1.8", Bounce::Admin),
        ("450 4.2.1", Bounce::Soft),
        ("452 4.2.2", Bounce::MailboxFull),
        ("452 4.3.1", Bounce::Soft),
        ("452 4.3.4", Bounce::TooLarge),
        ("451 4.4.1", Bounce::Timeout),
        ("421 4.4.2", Bounce::Timeout),
        ("451 4.4.3", Bounce::Dns),
        ("451 4.4.4", Bounce::Dns),
        ("451 4.4.5", Bounce::Transient),
        ("451 4.4.7", Bounce::Timeout),
        ("452 4.5.3", Bounce::Transient),
        ("451 4.7.1", Bounce::Block),
        ("454 4.7.0", Bounce::Block),
        ("432 4.7.12", Bounce::Admin),
        ("421 4.7.28", Bounce::Block),
    ];
    for (line, bounce) in table {
        assert_eq!(reply(line).bounce(), Some(bounce), "{line}");
    }
}

#[test]
fn bounces_have_the_names_and_numbers_of_the_wire() {
    let told = Bounce::ALL.map(|bounce| (bounce.class(), bounce.kind().name()));
    assert_eq!(
        told,
        [
            (1, "undetermined"),
            (10, "hard"),
            (20, "soft"),
            (21, "soft"),
            (22, "soft"),
            (23, "soft"),
            (24, "soft"),
            (25, "admin"),
            (30, "hard"),
            (50, "block"),
            (51, "block"),
            (54, "block"),
            (70, "soft"),
        ]
    );
    assert_eq!(BounceType::ALL.map(BounceType::name), ["hard", "soft", "block", "admin", "undetermined"]);
}

proptest! {
    #[test]
    fn only_a_refusal_is_hard(
        code in 0_u16..700,
        class in 0_u8..7,
        subject in 0_u16..9,
        detail in 0_u16..40,
        text in "[a-z ]{0,12}",
    ) {
        for enhanced in [None, Some((class, subject, detail))] {
            let reply = Reply { code, enhanced, text: text.clone() };
            let hard = reply.bounce().is_some_and(|bounce| bounce.kind() == BounceType::Hard);
            let proof = enhanced.is_none_or(|(class, ..)| class == 5);
            prop_assert!(!hard || (reply.verdict() == Verdict::Refused && proof), "{reply:?}");
        }
    }
}
