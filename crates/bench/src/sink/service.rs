//! What the receiver answers to one request.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::tally::Tally;

pub(super) async fn answer(request: Request<Incoming>, tally: &Tally) -> Result<Response<Full<Bytes>>> {
    let (head, body) = request.into_parts();
    match Kind::of(head.uri.path()) {
        Kind::Stats => Ok(Response::new(Full::from(serde_json::to_vec(&tally.stats())?))),
        Kind::Reset => {
            tally.reset();
            Ok(Response::new(Full::default()))
        }
        Kind::Hang => {
            body.collect().await?;
            tally.hang();
            std::future::pending().await
        }
        Kind::Slow(time) => {
            let open = tally.open();
            let body = body.collect().await?.to_bytes();
            tally.arrive(head.uri.path(), &head.headers, &body);
            tokio::time::sleep(time).await;
            drop(open);
            Ok(Response::new(Full::default()))
        }
        Kind::Answer(status) => {
            let body = body.collect().await?.to_bytes();
            if status.is_success() {
                tally.arrive(head.uri.path(), &head.headers, &body);
            } else {
                tally.refuse();
            }
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            Ok(response)
        }
    }
}

#[derive(Debug, PartialEq)]
enum Kind {
    Stats,
    Reset,
    Hang,
    /// Answers 200 after that time.
    Slow(Duration),
    Answer(StatusCode),
}

impl Kind {
    fn of(path: &str) -> Self {
        let mut segments = path.split('/').skip(1);
        match (segments.next(), segments.next()) {
            (Some("__stats"), _) => Self::Stats,
            (Some("__reset"), _) => Self::Reset,
            (Some("hang"), _) => Self::Hang,
            (Some("slow"), Some(ms)) => Self::Slow(Duration::from_millis(ms.parse().unwrap_or(0))),
            (Some("status"), Some(code)) => Self::Answer(code.parse().unwrap_or(StatusCode::OK)),
            _ => Self::Answer(StatusCode::OK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_decides_the_answer() {
        assert_eq!(Kind::of("/__stats"), Kind::Stats);
        assert_eq!(Kind::of("/__reset"), Kind::Reset);
        assert_eq!(Kind::of("/hang"), Kind::Hang);
        assert_eq!(Kind::of("/hang/7"), Kind::Hang);
        assert_eq!(Kind::of("/slow/20/d"), Kind::Slow(Duration::from_millis(20)));
        assert_eq!(Kind::of("/status/503"), Kind::Answer(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(Kind::of("/status/301/x"), Kind::Answer(StatusCode::MOVED_PERMANENTLY));
        assert_eq!(Kind::of("/status/many"), Kind::Answer(StatusCode::OK));
        assert_eq!(Kind::of("/d/1"), Kind::Answer(StatusCode::OK));
        assert_eq!(Kind::of("/"), Kind::Answer(StatusCode::OK));
    }
}
