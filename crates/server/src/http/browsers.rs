//! What browsers are told of an answer (base protocol §12): which pages may see it, and what of it.
//! The head of the request alone decides, so that nothing can be learned about what exists.

use headwater_core::ids::BucketId;
use headwater_core::wire::path::{self, Target};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};

use super::App;
use super::respond;
use crate::cors::Verdict;

impl App {
    /// Adds what a browser needs to an answer.
    pub(super) fn tell_browsers(&self, head: &Parts, headers: &mut HeaderMap) {
        let origin = head.headers.get(header::ORIGIN);
        let allowed = match (self.verdict(head, origin), origin) {
            (Verdict::Any, _) => HeaderValue::from_static("*"),
            (Verdict::This, Some(origin)) => {
                headers.append(header::VARY, ORIGIN);
                origin.clone()
            }
            (Verdict::This, None) | (Verdict::None, _) => {
                headers.append(header::VARY, ORIGIN);
                return;
            }
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        if head.method == Method::OPTIONS {
            respond::allow(headers);
        }
        // A browser that asks for a page of another origin says so. Answers that may be kept for
        // somebody else are for all of them.
        if super::is_get(&head.method) || origin.is_some() {
            respond::expose(headers);
        }
    }

    fn verdict(&self, head: &Parts, origin: Option<&HeaderValue>) -> Verdict {
        if self.config.cors.is_open() {
            return Verdict::Any;
        }
        let target = path::parse(head.uri.path()).ok();
        let bucket = target.as_ref().and_then(bucket_of);
        self.config.cors.judge(bucket.as_ref(), origin.map(HeaderValue::as_bytes))
    }
}

/// What an answer depends on that is another one for another origin.
const ORIGIN: HeaderValue = HeaderValue::from_static("origin");

/// The bucket whose rule holds.
fn bucket_of(target: &Target<'_>) -> Option<BucketId> {
    match target {
        Target::Stream { name, .. } => Some(name.bucket()),
        Target::Bucket { bucket, .. } | Target::Listing { bucket, .. } => Some(bucket.clone()),
        Target::SubscriptionApi(_) | Target::Operational("streams") => Some(BucketId::base()),
        Target::Root | Target::Operational(_) => None,
    }
}
