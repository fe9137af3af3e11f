#![cfg_attr(feature = "client", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "client"),
    doc = "The call table, the retry rules, the shapes on the wire and the receiver's kit."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs)]

pub mod calls;
pub mod receiver;
pub mod retry;
pub mod signature;
pub mod tunnel;
pub mod wire;

#[cfg(feature = "client")]
pub mod blocking;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "client", feature = "axum"))]
mod clock;
mod error;
#[cfg(feature = "client")]
pub mod resources;
mod timestamp;

pub use bytes::Bytes;
#[cfg(feature = "client")]
pub use client::{Client, ClientBuilder, SetupFault};
pub use error::{Detail, Error, ErrorKind};
pub use http::{HeaderMap, Method};
pub use timestamp::{NotATime, Timestamp};
