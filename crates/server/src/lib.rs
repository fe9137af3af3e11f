//! The running server: doors, dispatcher, channels, upkeep.

pub mod channel;
pub mod clock;
