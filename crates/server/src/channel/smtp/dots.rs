//! The content of DATA: line ends and leading dots (RFC 5321, 2.3.8 and 4.5.2).

/// Ends the content. Its first two bytes are the end of the content's last line.
pub(super) const END: &[u8] = b"\r\n.\r\n";

/// Makes a message sendable, piece by piece.
///
/// A line that begins with a dot gets another one. Every CR, LF or CRLF becomes a CRLF: a server that takes a bare
/// one for a line end would otherwise find the end of the content inside the message, and commands after it. The
/// last line end is left to [`END`].
#[derive(Debug)]
pub(super) struct Dots {
    /// A line end that is not written yet, for it may be the last one.
    owes_line_end: bool,
    at_line_start: bool,
    /// The byte before was a CR: a LF belongs to it.
    after_cr: bool,
}

impl Dots {
    pub(super) fn new() -> Self {
        Self { owes_line_end: false, at_line_start: true, after_cr: false }
    }

    /// Appends what is to be written for `piece`: at most three times as much.
    pub(super) fn stuff(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for &byte in piece {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\r' | b'\n' => {
                    self.pay(out);
                    self.owes_line_end = true;
                    self.after_cr = byte == b'\r';
                }
                _ => {
                    self.pay(out);
                    if self.at_line_start && byte == b'.' {
                        out.push(b'.');
                    }
                    out.push(byte);
                    self.at_line_start = false;
                    self.after_cr = false;
                }
            }
        }
    }

    fn pay(&mut self, out: &mut Vec<u8>) {
        if self.owes_line_end {
            out.extend_from_slice(b"\r\n");
            self.owes_line_end = false;
            self.at_line_start = true;
        }
    }
}
