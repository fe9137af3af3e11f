//! Requests from strangers, from their connection to a receiver's.
//!
//! The oracle is a reader of requests that knows of HTTP/1 only where a request ends.

use restante_core::message::Received;

use super::Input;
use crate::door::fuzzing::{Taken, converse};

mod forward;
mod sent;

use sent::Sent;

/// Each request that is taken of a connection is the next one that was sent: its method, path, query, header lines in
/// their order and case, and its body. What goes on to a receiver is that, less what belongs to one connection.
pub(super) fn what_is_taken_is_what_was_sent(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let piece = 1 + usize::from(input.byte());
    let sent = input.rest();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime of one thread needs nothing").block_on(async {
        let mut rest = sent;
        for Taken { received, by_library } in &converse(sent, piece).await {
            let next = sent::next(&mut rest);
            let next = next.unwrap_or_else(|| panic!("{received:?} was taken and not sent"));
            compare(&next, received, *by_library);
            forward::check(received).await;
        }
    });
}

fn compare(sent: &Sent<'_>, received: &Received, by_library: bool) {
    assert_eq!(received.method.as_bytes(), sent.method);
    if sent.target.starts_with(b"/") {
        let target = match &received.query {
            Some(query) => format!("{}?{query}", received.path),
            None => received.path.clone(),
        };
        // A fragment is no part of a request's target: it is for who reads the page.
        let until = sent.target.iter().position(|byte| *byte == b'#').unwrap_or(sent.target.len());
        assert_eq!(target.as_bytes(), &sent.target[..until]);
    }
    let lines: Vec<(String, &[u8])> =
        received.headers.iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if by_library {
        assert_eq!(sent::grouped(&lines), sent::grouped(&sent.lines));
    } else {
        assert_eq!(lines, sent.lines);
    }
    assert_eq!(received.body, sent.body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_proper_is_taken() {
        let sent = b"POST /in/a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nokGET /in/b HTTP/1.1\r\nHost: a\r\n\r\n";
        let taken = converse(sent, 3).await;
        let paths: Vec<&str> = taken.iter().map(|taken| taken.received.path.as_str()).collect();
        assert_eq!(paths, ["/in/a", "/in/b"]);
        assert_eq!(taken[0].received.body.as_ref(), b"ok");
    }
}
