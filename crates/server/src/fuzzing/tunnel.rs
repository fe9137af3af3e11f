//! Frames of the tunnel, from a client and from a server that may be anybody.

use restante_core::Outcome;
use restante_core::outcome::MESSAGE_CHARS_MAX;
use restante_sdk::tunnel::{ToClient, ToServer};

use crate::tunnel::judge;

/// A frame that is read is read again from what is written for it; a client's word becomes an outcome that fits.
pub(super) fn frames_are_read_as_they_are_written(bytes: &[u8]) {
    if let Ok(Some(frame)) = ToClient::read(bytes) {
        let again = ToClient::read(&frame.to_bytes()).expect("what we write is a frame");
        assert_eq!(again, Some(frame));
    }
    if let Ok(Some(frame)) = ToServer::read(bytes) {
        let again = ToServer::read(&frame.to_bytes()).expect("what we write is a frame");
        assert_eq!(again.as_ref(), Some(&frame));
        if let ToServer::Result(result) = frame {
            check(&judge(&result), result.response_code);
        }
    }
}

fn check(outcome: &Outcome, code: Option<u16>) {
    match outcome {
        Outcome::Delivered { status } => {
            assert_eq!(*status, code);
            assert!(code.is_none_or(|code| (200..300).contains(&code)));
        }
        Outcome::Failed(failure) => {
            assert_eq!(failure.status, code);
            assert!(failure.message.chars().count() <= MESSAGE_CHARS_MAX);
            assert!(failure.retry_after.is_none());
        }
        Outcome::Refused(_) | Outcome::Uncertain(_) | Outcome::Lost => {
            panic!("{outcome:?} is not a client's to say")
        }
    }
}
