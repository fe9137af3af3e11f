//! What is promised of cursors, which callers are free to make up. See [`crate::fuzzing`].

use restante_core::id::Key;

use super::query::{cursor, read_cursor};
use super::webhooks::listing::{read_place, write_cursor};
use crate::fuzzing::Input;

/// A text that is read as a cursor is the one that is written for its place, and every place is read from its cursor.
pub(crate) fn only_what_we_write_is_read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(key) = read_cursor(&text) {
        assert_eq!(cursor(key), text);
    }
    for by_url in [false, true] {
        let Some(place) = read_place(&text, by_url) else { continue };
        assert_eq!(write_cursor(&place), text);
    }
    let mut input = Input::new(bytes);
    let value = input.number().cast_signed() & i64::MAX;
    assert_eq!(read_cursor(&cursor(Key::from_value(value))), Some(Key::from_value(value)));
    let url = String::from_utf8_lossy(input.rest());
    if !url.is_empty() {
        let place = (url.into_owned(), value);
        assert_eq!(read_place(&write_cursor(&place), true), Some(place));
    }
}
