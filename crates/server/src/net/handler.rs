//! Running the handlers of requests where their connections run.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::{Method, Request};
use tokio::runtime;

use crate::http::{App, Reply};

/// The answer to one request, in the making. It is polled by its connection and costs no task of
/// its own. One that may change something runs to its end even when the client goes away and the
/// connection drops it: what it has begun, such as a stored body that waits for its entry, is also
/// cleaned up.
pub(super) struct Handler {
    /// Nothing once it has answered.
    work: Option<Pin<Box<dyn Future<Output = Reply> + Send>>>,
    runs_to_its_end: bool,
}

impl Handler {
    /// The answer to `request`; what it holds is given back at its end.
    pub(super) fn new(
        app: Arc<App>,
        held: impl Send + 'static,
        request: Request<Incoming>,
    ) -> Self {
        let only_reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let work = async move {
            let reply = AssertUnwindSafe(app.answer(request)).catch_unwind().await;
            drop(held);
            reply.unwrap_or_else(|_panic| app.panicked())
        };
        Self { work: Some(Box::pin(work)), runs_to_its_end: !only_reads }
    }
}

impl Future for Handler {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let work = self.work.as_mut().expect("nobody polls a future that has ended");
        let reply = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(reply)
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if self.runs_to_its_end
            && let Some(work) = self.work.take()
            && let Ok(runtime) = runtime::Handle::try_current()
        {
            // At the end of the process the runtime takes no tasks: recovery cleans up then.
            drop(runtime.spawn(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use tokio::sync::oneshot;

    use super::*;

    /// A handler that counts its end, and what lets it come to it.
    fn handler(runs_to_its_end: bool) -> (Handler, Arc<AtomicUsize>, oneshot::Sender<()>) {
        let (go_on, waits) = oneshot::channel();
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        let work = async move {
            waits.await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            http::Response::new(crate::http::Body::Full(Bytes::new()))
        };
        (Handler { work: Some(Box::pin(work)), runs_to_its_end }, ended, go_on)
    }

    #[tokio::test]
    async fn a_handler_that_writes_goes_on_without_its_connection() {
        let (mut begun, ended, go_on) = handler(true);
        assert!((&mut begun).now_or_never().is_none());
        drop(begun);
        go_on.send(()).unwrap();
        while ended.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_handler_that_only_reads_ends_with_its_connection() {
        let (mut begun, _ended, go_on) = handler(false);
        assert!((&mut begun).now_or_never().is_none());
        drop(begun);
        assert!(go_on.is_closed());
    }

    #[tokio::test]
    async fn a_handler_that_has_answered_is_not_run_again() {
        let (mut begun, ended, go_on) = handler(true);
        go_on.send(()).unwrap();
        let _reply = (&mut begun).await;
        drop(begun);
        tokio::task::yield_now().await;
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }
}
