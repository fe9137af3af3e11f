//! Files that go with emails.

use std::fmt;

use bytes::Bytes;
use data_encoding::BASE64;
use serde::{Serialize, Serializer};

/// A file that goes with an email.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
pub struct Attachment {
    /// At most 255 characters.
    pub filename: String,
    /// The bytes of the file; base64 on the wire.
    #[serde(serialize_with = "base64")]
    pub content: Bytes,
    /// Told by the end of `filename` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The file is shown inside the HTML, under `cid:` and this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
}

impl Attachment {
    /// A file whose type its name tells.
    pub fn new(filename: impl Into<String>, content: impl Into<Bytes>) -> Self {
        Self { filename: filename.into(), content: content.into(), content_type: None, content_id: None }
    }

    /// A file that the HTML shows as `cid:` and `content_id`.
    pub fn inline(
        filename: impl Into<String>,
        content: impl Into<Bytes>,
        content_id: impl Into<String>,
    ) -> Self {
        Self { content_id: Some(content_id.into()), ..Self::new(filename, content) }
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("filename", &self.filename)
            .field("content_bytes", &self.content.len())
            .field("content_type", &self.content_type)
            .field("content_id", &self.content_id)
            .finish()
    }
}

fn base64<S: Serializer>(content: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&BASE64.encode_display(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_base64_on_the_wire() {
        for (bytes, text) in [(&b""[..], ""), (b"a", "YQ=="), (b"\xfb\xff", "+/8="), (b"abc", "YWJj")] {
            let written = serde_json::to_string(&Attachment::new("a.bin", bytes)).unwrap();
            assert_eq!(written, format!(r#"{{"filename":"a.bin","content":"{text}"}}"#));
        }
        let inline = Attachment::inline("a.png", vec![0; 3], "logo");
        let written = serde_json::to_string(&inline).unwrap();
        assert_eq!(written, r#"{"filename":"a.png","content":"AAAA","content_id":"logo"}"#);
        assert!(!format!("{inline:?}").contains("AAAA"));
    }
}
