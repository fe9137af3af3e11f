//! Where a span is: its trace and its number there.

use restante_core::message::MessageId;

/// The header by which a caller says where it is (W3C Trace Context).
pub(super) const TRACEPARENT: &str = "traceparent";

/// A span as others name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// Not 0.
    pub(super) trace: u128,
    /// Not 0.
    pub(super) span: u64,
    pub(super) sampled: bool,
}

impl Context {
    /// The first span of a message's trace. All attempts hang on it, wherever they are made.
    ///
    /// The trace is the message's UUID, the span its lower half: neither is ever 0, for a UUID's variant lies there.
    pub(super) fn of(message: MessageId, sampled: bool) -> Self {
        let trace = message.uuid();
        Self { trace, span: trace as u64, sampled }
    }

    /// Reads a `traceparent` (W3C Trace Context, 3.2); `None` for what is none.
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(header).ok()?;
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may say more behind the flags; the first one may not.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        hex(version, 2)?;
        let (trace, span) = (hex(trace, 32)?, hex(span, 16)?);
        let sampled = hex(flags, 2)? & 1 == 1;
        (trace != 0 && span != 0).then_some(Self { trace, span: span as u64, sampled })
    }
}

/// Exactly `digits` of lower-case hexadecimal.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let fit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == digits && text.bytes().all(fit)).then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_as_its_standard_says() {
        let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
        let read = |sampled| Some(Context { trace, span: 0xb7ad_6b71_6920_3331, sampled });
        let table = [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", read(true)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02", read(false)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-follows", read(true)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-follows", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", None),
            ("00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("", None),
        ];
        for (header, expected) in table {
            assert_eq!(Context::parse(header.as_bytes()), expected, "{header}");
        }
    }
}
