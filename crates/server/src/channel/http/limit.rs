//! An end to connecting.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use tokio::time::timeout;
use tower_service::Service;

/// A connector that gives up after `time`.
///
/// When a connection in use becomes free first, the pool lets the one being made finish in the background, where no
/// attempt's time ends it. Without a limit every handshake that a receiver leaves hanging would keep its socket.
#[derive(Clone)]
pub(super) struct Limited<C> {
    pub(super) connector: C,
    pub(super) time: Duration,
}

impl<C> Service<Uri> for Limited<C>
where
    C: Service<Uri>,
    C::Error: Into<Box<dyn Error + Send + Sync>>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = timeout(self.time, self.connector.call(target));
        Box::pin(async move { connecting.await?.map_err(Into::into) })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::Pending;

    use tokio::time::error::Elapsed;

    use super::*;

    #[derive(Clone)]
    struct Never;

    impl Service<Uri> for Never {
        type Response = ();
        type Error = Infallible;
        type Future = Pending<Result<(), Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            std::future::pending()
        }
    }

    #[tokio::test]
    async fn connecting_ends() {
        let mut connector = Limited { connector: Never, time: Duration::from_millis(1) };
        let error = connector.call(Uri::from_static("https://example.com/")).await.unwrap_err();
        assert!(error.is::<Elapsed>());
    }
}
