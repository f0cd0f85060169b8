//! `GET /-/metrics`: everything that is counted, as Prometheus reads it.

use std::sync::Arc;

use http::{HeaderValue, Response, header};

use super::App;
use super::body::Body;
use super::locate::blocking;
use super::respond::{self, Answer};
use crate::metrics;

pub(super) async fn scrape(app: &Arc<App>) -> Answer {
    let gathered = Arc::clone(app);
    // Taking stock asks the disk.
    let text = blocking(move || Ok(metrics::write(metrics::gather(&gathered)))).await?;
    let mut reply = Response::new(Body::Full(text.into()));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(metrics::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, respond::NO_STORE);
    Ok(reply)
}
