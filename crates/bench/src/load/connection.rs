//! One connection of the generator.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};

use super::pace::{Pace, Turn};
use super::{Plan, Tally};
use crate::body::Post;
use crate::clock;
use crate::line::Line;

/// Pause after a failed request, so that a dead target is not dialled in a tight loop.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(10);

pub(super) struct Connection {
    line: Line,
    host: HeaderValue,
    paths: Arc<[Uri]>,
    body_bytes: usize,
    post: Post,
    authorization: Option<HeaderValue>,
    pace: Arc<Pace>,
    tally: Arc<Mutex<Tally>>,
}

impl Connection {
    /// # Errors
    /// The target does not accept the connection.
    pub(super) async fn open(plan: &Plan, pace: Arc<Pace>, tally: Arc<Mutex<Tally>>) -> Result<Self> {
        let mut line = Line::new(plan.targets.address);
        line.connect().await.context("the target does not answer\nhint: start it before the generator")?;
        let host = plan.targets.host.clone();
        let paths = Arc::clone(&plan.targets.paths);
        let (post, body_bytes) = (plan.post, plan.body_bytes);
        let authorization = plan.authorization.clone();
        Ok(Self { line, host, paths, body_bytes, post, authorization, pace, tally })
    }

    /// Sends one request after the other until the pace has no more turns.
    pub(super) async fn run(mut self) {
        while let Some(turn) = self.pace.next().await {
            let outcome = self.exchange(&turn).await;
            let failed = outcome.is_err();
            self.tally.lock().unwrap_or_else(PoisonError::into_inner).record(&turn, outcome.ok());
            if failed {
                tokio::time::sleep(PAUSE_AFTER_ERROR).await;
            }
        }
    }

    async fn exchange(&mut self, turn: &Turn) -> Result<(StatusCode, u64)> {
        let response = self.line.send(self.request(turn)).await?;
        let status = response.status();
        let mut rest = response.into_body();
        while let Some(frame) = rest.frame().await {
            frame?;
        }
        Ok((status, clock::micros_since(turn.due)))
    }

    fn request(&self, turn: &Turn) -> Request<Full<Bytes>> {
        let index = usize::try_from(turn.n % self.paths.len() as u64).expect("an index of the list");
        let body = self.post.body(turn.due_us, turn.n, self.body_bytes);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.paths[index].clone();
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        request
    }
}
