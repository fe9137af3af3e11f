//! Values out of bytes.

use std::borrow::Cow;

/// What is left of an input. Behind its end all numbers are 0 and all texts are empty.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    pub(crate) fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| (number << 8) | u64::from(self.byte()))
    }

    /// Up to 255 bytes: as many as the next one says.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    /// Likewise, as text.
    pub(crate) fn text(&mut self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes())
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
