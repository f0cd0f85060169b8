//! The door: requests become commands and looks, receipts and facts become answers. No protocol
//! rule lives here. [`route`] lists every route on one screen.

mod append;
mod attributes;
mod batch;
mod body;
mod bootstrap;
mod bucket;
mod create;
mod delete;
mod guard;
mod health;
mod locate;
mod long_poll;
mod page;
mod read;
mod respond;
mod retention;
mod snapshot;
mod sse;

use std::sync::Arc;

use headwater_core::ids::StreamName;
use headwater_core::wire::headers::Fields;
use headwater_core::wire::path::{self, Resource, Surface, Target};
use http::request::Parts;
use http::{Method, Request, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, watch};

pub(crate) use body::{Body, Stream};
pub(crate) use respond::Reply;
use respond::{Answer, Failure};

use crate::config::Config;
use crate::descriptors::{self, Shares};
use crate::engine::Engine;

/// What all requests of a worker share.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: Config,
    /// Request bodies in memory, see [`body::BUDGET_UNIT`].
    pub(crate) body_budget: Arc<Semaphore>,
    /// Descriptors for connections and files.
    pub(crate) shares: Shares,
    /// Requests that may have a file of their own open, see [`opens_a_file`].
    files: Arc<Semaphore>,
    /// The newest events of the worker's live readers.
    events: sse::Events,
    /// Becomes true when the server drains: live readers end.
    pub(crate) draining: watch::Receiver<bool>,
}

/// A stream on the surface that a request came in on.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) surface: Surface,
    pub(crate) name: StreamName,
}

impl App {
    pub(crate) fn new(
        engine: Arc<Engine>,
        config: Config,
        draining: watch::Receiver<bool>,
    ) -> Self {
        let units = config.body_bytes_in_flight_max.div_ceil(body::BUDGET_UNIT);
        let units = usize::try_from(units).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let body_budget = Arc::new(Semaphore::new(units));
        let shares = descriptors::share(config.connections_max);
        let files = Arc::new(Semaphore::new(shares.files.min(Semaphore::MAX_PERMITS)));
        let events = sse::Events::default();
        Self { engine, config, body_budget, shares, files, events, draining }
    }

    /// The same for another worker.
    pub(crate) fn for_worker(&self) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::clone(&self.engine),
            config: self.config.clone(),
            body_budget: Arc::clone(&self.body_budget),
            shares: self.shares,
            files: Arc::clone(&self.files),
            events: sse::Events::default(),
            draining: self.draining.clone(),
        })
    }

    /// Answers a request. Nothing fails past this point: failures are answers, too.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Reply {
        let (mut head, body) = request.into_parts();
        let admitted = guard::admit(&mut head);
        let path = head.uri.path();
        let mut reply = match (admitted, path::parse(path)) {
            (Err(failure), _) => failure.reply(None),
            (Ok(()), _) if head.method == Method::OPTIONS => respond::preflight(),
            (Ok(()), Err(error)) => Failure::from(error).reply(None),
            (Ok(()), Ok(target)) => match self.admitted(&head, body, target).await {
                Ok(reply) => reply,
                Err(failure) => failure.reply(path::parse(path).ok().as_ref()),
            },
        };
        respond::common(reply.headers_mut());
        // A browser that asks for a page of another origin says so. Answers that may be kept for
        // somebody else are for all of them.
        if is_get(&head.method) || head.headers.contains_key(header::ORIGIN) {
            respond::expose(reply.headers_mut());
        }
        if head.method == Method::HEAD {
            keep_head_only(&mut reply);
        }
        reply
    }

    /// Routes a request, once it may open what it needs.
    async fn admitted(
        self: &Arc<Self>,
        head: &Parts,
        body: Incoming,
        target: Target<'_>,
    ) -> Answer {
        if !opens_a_file(&head.method, &target) {
            return route(self, head, body, target).await;
        }
        let files = Arc::clone(&self.files);
        let file = files.try_acquire_owned().map_err(|_none_left| Failure::crowded().closing())?;
        let mut reply = route(self, head, body, target).await?;
        reply.body_mut().hold(file);
        Ok(reply)
    }

    /// The answer when a handler has panicked. What it had submitted may have happened.
    pub(crate) fn panicked() -> Reply {
        let mut reply = Failure::panicked().reply(None);
        respond::common(reply.headers_mut());
        reply
    }
}

/// Every route of the server. What needs much memory while it waits has a box of its own, so that
/// the small requests need little.
async fn route(app: &Arc<App>, head: &Parts, body: Incoming, target: Target<'_>) -> Answer {
    let method = &head.method;
    let (get, put) = (is_get(method), method == Method::PUT);
    let (post, delete) = (method == Method::POST, method == Method::DELETE);
    match target {
        Target::Root if get => Ok(health::version()),
        Target::Root => Err(Failure::method("GET, HEAD, OPTIONS")),
        Target::Operational(rest) => match rest {
            "healthz" | "readyz" | "version" | "buckets" | "streams" if !get => {
                Err(Failure::method("GET, HEAD, OPTIONS"))
            }
            "healthz" => Ok(health::alive()),
            "readyz" => Ok(health::ready(app)),
            "version" => Ok(health::version()),
            "buckets" => bucket::list_buckets(app, head).await,
            "streams" => bucket::list_base(app, head).await,
            _ => Err(nothing_here()),
        },
        Target::SubscriptionApi(_) => Err(health::no_subscriptions()),
        Target::Bucket { surface, bucket } => match () {
            () if put => bucket::create(app, head, surface, bucket).await,
            () if get => bucket::show(app, &bucket).await,
            () if delete => bucket::delete(app, bucket).await,
            () => Err(Failure::method("GET, HEAD, PUT, DELETE, OPTIONS")),
        },
        Target::Listing { bucket, .. } if get => bucket::list(app, head, &bucket).await,
        Target::Listing { .. } => Err(bucket::reserved_name()),
        Target::Stream { surface, name, resource } => {
            let place = Place { surface, name };
            match resource {
                Resource::Stream if put => Box::pin(create::create(app, head, body, place)).await,
                Resource::Stream if post => append::append(app, head, body, place).await,
                Resource::Stream if method == Method::HEAD => read::head(app, &place).await,
                Resource::Stream if get => Box::pin(read::read(app, head, place)).await,
                Resource::Stream if delete => delete::delete(app, place).await,
                Resource::Snapshot if put => {
                    Box::pin(snapshot::publish(app, head, body, place, None)).await
                }
                Resource::Snapshot if get => snapshot::redirect(app, head, &place).await,
                Resource::SnapshotAt(at) if put => {
                    Box::pin(snapshot::publish(app, head, body, place, Some(&at))).await
                }
                Resource::SnapshotAt(at) if get => snapshot::get(app, head, &place, &at).await,
                Resource::SnapshotAt(at) if delete => snapshot::delete(app, &place, &at).await,
                Resource::Retention if put => retention::retain(app, head, place, None).await,
                Resource::RetentionAt(at) if put => {
                    retention::retain(app, head, place, Some(&at)).await
                }
                Resource::Bootstrap if get => Box::pin(bootstrap::get(app, head, &place)).await,
                Resource::AppendBatch if post => batch::append(app, head, body, place).await,
                Resource::Attributes if get => attributes::get(app, &place).await,
                Resource::Attributes if put => attributes::put(app, head, body, place).await,
                Resource::Stream => Err(Failure::method("GET, HEAD, PUT, POST, DELETE, OPTIONS")),
                Resource::Snapshot | Resource::Attributes => {
                    Err(Failure::method("GET, HEAD, PUT, OPTIONS"))
                }
                Resource::SnapshotAt(_) => Err(Failure::method("GET, HEAD, PUT, DELETE, OPTIONS")),
                Resource::Retention | Resource::RetentionAt(_) => {
                    Err(Failure::method("PUT, OPTIONS"))
                }
                Resource::Bootstrap => Err(Failure::method("GET, HEAD, OPTIONS")),
                Resource::AppendBatch => Err(Failure::method("POST, OPTIONS")),
            }
        }
    }
}

/// Whether a request reads or writes the body of a snapshot, each by a descriptor of its own.
fn opens_a_file(method: &Method, target: &Target<'_>) -> bool {
    let Target::Stream { resource, .. } = target else { return false };
    match resource {
        Resource::SnapshotAt(_) => method == Method::GET || method == Method::PUT,
        Resource::Snapshot => method == Method::PUT,
        Resource::Bootstrap => method == Method::GET,
        _ => false,
    }
}

fn is_get(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

fn nothing_here() -> Failure {
    Failure::problem(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "No such resource",
        "There is nothing under this path.",
    )
}

/// Refuses a body that is encoded: it would be stored as it is and misread later.
fn check_encoding(head: &Parts) -> Result<(), Failure> {
    if Fields::of(&head.headers).has_content_encoding() {
        return Err(Failure::problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UNSUPPORTED_CONTENT_ENCODING",
            "Encoded bodies are not taken",
            "Send the body without Content-Encoding.",
        ));
    }
    Ok(())
}

/// The answer to HEAD: the same head, no body. A length that is known stays known; where a handler
/// made no body for HEAD, none is, and no length is better than a wrong one (RFC 9110 §8.6).
fn keep_head_only(reply: &mut Reply) {
    let body = std::mem::replace(reply.body_mut(), Body::empty());
    if let Body::Full(bytes) = body
        && !bytes.is_empty()
        && reply.status() != StatusCode::NO_CONTENT
        && reply.status() != StatusCode::NOT_MODIFIED
        && !reply.headers().contains_key(header::CONTENT_LENGTH)
    {
        respond::insert(reply.headers_mut(), header::CONTENT_LENGTH, bytes.len());
    }
    if reply.status().is_client_error() || reply.status().is_server_error() {
        reply.headers_mut().remove(header::CONTENT_TYPE);
    }
}
