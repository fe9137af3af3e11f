//! Events and webhooks: who publishes, who owns, what they ask for, and what they make of the answers.

pub(super) mod errand;

mod answers;
mod owners;
pub(super) mod plants;
mod publishers;
mod records;
