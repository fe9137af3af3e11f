//! Promises about any bytes that a stranger may send, each a function that panics when it is broken.
//!
//! The tests try them on the corpus in `fuzz/corpus` and on what comes of it by small changes; the fuzzers in `fuzz/`,
//! which are why this is public, try them on all they can think of. Compiled for tests and with the feature `fuzzing`.

mod address;
mod input;
mod intake;
mod mime;
mod retry_after;
mod signature;
#[cfg(test)]
mod tests;
mod tunnel;

pub(crate) use input::Input;

/// What is promised of some bytes.
pub type Promise = fn(&[u8]);

/// All promises, by the names of their fuzz targets.
pub const TARGETS: [(&str, Promise); 8] = [
    ("address", address::only_public_addresses_get_through),
    ("cursor", crate::api::fuzzing::only_what_we_write_is_read),
    ("intake", intake::what_is_taken_is_what_was_sent),
    ("mime", mime::nothing_breaks_out_of_an_email),
    ("retry_after", retry_after::no_wish_goes_beyond_its_bounds),
    ("signature", signature::only_the_sender_signs),
    ("smtp_reply", crate::channel::smtp::fuzzing::replies_are_bounded_and_read_alike),
    ("tunnel_frame", tunnel::frames_are_read_as_they_are_written),
];

/// Checks the promise of this name.
///
/// # Panics
/// When it is broken, and for a name that there is none of.
pub fn check(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, promise) = target.expect("the name is one of the targets'");
    promise(bytes);
}
