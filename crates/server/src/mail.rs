//! Emails as bytes, and what makes receivers trust them.
//!
//! ```text
//! template ─▶ Email ─▶ compose ─▶ frozen MIME ─▶ dkim (an attempt begins) ─▶ channel
//!                                     └▶ parse (a scheduled email changes)
//! ```
//!
//! Nothing here stores or sends; `verified` reads domains. `records` asks the DNS through a trait; the rest is pure.

pub mod compose;
pub mod dkim;
pub mod parse;
pub mod records;
pub mod template;
pub(crate) mod verified;
