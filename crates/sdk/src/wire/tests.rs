//! Answers come back as they came, and requests are what the server reads.

mod answers;
mod mail;
mod queries;
mod requests;

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an answer and checks that nothing of it is lost, and that fields of a newer server do not hinder.
fn answered<T: DeserializeOwned + Serialize + PartialEq + Debug>(text: &str) -> T {
    let answer: T = serde_json::from_str(text).unwrap();
    let expected: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&answer).unwrap(), expected);
    let newer = text.replacen('{', r#"{"not_known_yet":{"a":[1.5]},"#, 1);
    assert_eq!(serde_json::from_str::<T>(&newer).unwrap(), answer);
    answer
}

/// Checks what a request is written as.
fn written(request: &impl Serialize, expected: &str) {
    assert_eq!(serde_json::to_string(request).unwrap(), expected);
}
