//! The door: requests become commands and looks, receipts and facts become answers. No protocol
//! rule lives here. [`routes::ROUTES`] lists every route, with what it needs.

mod access_log;
mod append;
mod attributes;
mod batch;
mod body;
mod bootstrap;
mod browsers;
mod bucket;
mod create;
mod delete;
mod encode;
mod guard;
mod health;
mod keys;
mod limit;
mod locate;
mod long_poll;
mod metrics;
mod openapi;
mod origin;
mod page;
mod read;
mod respond;
mod retention;
mod routes;
mod snapshot;
mod sse;

use std::sync::Arc;

use headwater_core::access::{Action, Subject};
use headwater_core::ids::StreamName;
use headwater_core::refusal::Refusal;
use headwater_core::wire::headers::Fields;
use headwater_core::wire::path::{self, Resource, Surface, Target};
use http::request::Parts;
use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub(crate) use body::{BUDGET_UNIT, Body, Stream};
pub(crate) use limit::Peer;
use origin::Origin;
pub(crate) use respond::Reply;
use respond::{Answer, Failure};
pub(crate) use routes::Verb;
use routes::{Need, Route};

use crate::auth::{Access, Auth, BadKeys, Denied, Visit};
use crate::config::Config;
use crate::descriptors::{self, Shares};
use crate::engine::Engine;
use crate::limits::{Gate, Turn};
use crate::metrics::{Metrics, Pace, Sheet};

/// What all requests of a worker share.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: Config,
    /// Who may do what; nothing when everybody may do everything.
    auth: Option<Arc<Auth>>,
    /// Request bodies in memory, see [`body::BUDGET_UNIT`].
    pub(crate) body_budget: Arc<Semaphore>,
    /// Who is let in.
    gate: Arc<Gate>,
    /// Descriptors for connections and files.
    pub(crate) shares: Shares,
    /// Requests that may have a file of their own open, see [`opens_a_file`].
    files: Arc<Semaphore>,
    /// Requests that there may be at a time on connections of HTTP/2.
    pub(crate) streams: Arc<Semaphore>,
    /// Bodies that may be compressed at a time.
    encoders: Arc<Semaphore>,
    /// The newest events of the worker's live readers.
    events: sse::Events,
    pub(crate) metrics: Arc<Metrics>,
    /// What this worker counts.
    pub(crate) sheet: Arc<Sheet>,
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
        metrics: Arc<Metrics>,
        draining: watch::Receiver<bool>,
    ) -> Result<Self, BadKeys> {
        let units = config.body_bytes_in_flight_max.div_ceil(BUDGET_UNIT);
        let units = usize::try_from(units).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let body_budget = Arc::new(Semaphore::new(units));
        let shares = descriptors::share(config.connections_max);
        let files = Arc::new(Semaphore::new(shares.files.min(Semaphore::MAX_PERMITS)));
        let streams =
            Arc::new(Semaphore::new(config.http2_streams_max.min(Semaphore::MAX_PERMITS)));
        let events = sse::Events::default();
        let auth = config.auth.clone().map(Auth::new).transpose()?.map(Arc::new);
        let sheet = metrics.sheet();
        let encoders = encode::encoders(config.encoders_max);
        let gate = Arc::new(Gate::new(&config.limits, shares.connections));
        let app = Self {
            engine,
            config,
            auth,
            body_budget,
            gate,
            shares,
            files,
            streams,
            encoders,
            events,
            metrics,
            sheet,
            draining,
        };
        app.reload_keys();
        Ok(app)
    }

    /// Has the door know the keys that there are now. Called at the start and whenever a change of
    /// them is durable.
    fn reload_keys(&self) {
        if let Some(auth) = &self.auth {
            auth.reload(|| self.engine.keys_now());
        }
    }

    /// The same for another worker.
    pub(crate) fn for_worker(&self) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::clone(&self.engine),
            config: self.config.clone(),
            auth: self.auth.clone(),
            body_budget: Arc::clone(&self.body_budget),
            gate: Arc::clone(&self.gate),
            shares: self.shares,
            files: Arc::clone(&self.files),
            streams: Arc::clone(&self.streams),
            encoders: Arc::clone(&self.encoders),
            events: sse::Events::default(),
            metrics: Arc::clone(&self.metrics),
            sheet: self.metrics.sheet(),
            draining: self.draining.clone(),
        })
    }

    /// Answers a request. Nothing fails past this point: failures are answers, too.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Reply {
        let began = Instant::now();
        let (mut head, body) = request.into_parts();
        let (mut verb, mut origin) = (None, None);
        let answer = match guard::admit(&mut head) {
            Ok(()) if head.method == Method::OPTIONS => Ok(respond::status(StatusCode::NO_CONTENT)),
            Ok(()) => self.route(&mut head, body, &mut verb).await,
            Err(failure) => Err(failure),
        };
        let mut reply = answer.unwrap_or_else(|failure| self.refuse(failure, &head, &mut origin));
        self.finish(&mut reply, &head);
        let (took, pace) = (began.elapsed(), pace(verb, &head));
        self.sheet.answered(verb, reply.status().as_u16(), pace, took);
        if self.config.access_log {
            let origin = origin.unwrap_or_else(|| Origin::of(&head.headers));
            access_log::log(&head, &origin, verb, pace, &reply, took);
        }
        reply
    }

    /// Finds out what is asked, whether it may be, and does it.
    async fn route(
        self: &Arc<Self>,
        head: &mut Parts,
        body: Incoming,
        verb: &mut Option<Verb>,
    ) -> Answer {
        let target = path::parse(head.uri.path())?;
        let route = routes::find(&head.method, &target)?;
        *verb = Some(route.verb);
        let Admitted { access, turn: _until_answered } = self.admit(head, &target, route)?;
        if let Some(access) = access {
            head.extensions.insert(access);
        }
        self.serve(head, body, target, route.verb).await
    }

    /// The answer to what failed, counted, and logged if something broke.
    fn refuse(&self, failure: Failure, head: &Parts, origin: &mut Option<Origin>) -> Reply {
        let fault = match &failure {
            Failure::Broken(fault) => Some(fault.to_string()),
            _ => None,
        };
        let (mut problem, headers) = failure.told(path::parse(head.uri.path()).ok().as_ref());
        self.sheet.refused(problem.code, respond::is_limit(&problem));
        if problem.status.is_server_error() {
            let origin = origin.insert(Origin::of(&head.headers));
            let Origin { request_id, trace_id } = &*origin;
            if let Some(fault) = fault {
                let code = problem.code;
                tracing::error!(fault, code, request_id, trace_id, "a request failed");
            }
            problem.extra.push(("request_id", request_id.as_str().into()));
        }
        respond::write(&problem, headers)
    }

    /// What every answer has in common.
    fn finish(&self, reply: &mut Reply, head: &Parts) {
        respond::common(reply.headers_mut());
        if self.auth.is_some() {
            respond::keep_private(reply.headers_mut());
        }
        self.tell_browsers(head, reply.headers_mut());
        if let Some(id) = origin::given(&head.headers) {
            reply.headers_mut().insert(origin::X_REQUEST_ID, id.clone());
        }
        if head.method == Method::HEAD {
            keep_head_only(reply);
        }
    }

    /// Lets a request in that may be served now.
    fn admit(
        &self,
        head: &Parts,
        target: &Target<'_>,
        route: &Route,
    ) -> Result<Admitted<'_>, Failure> {
        // Whoever watches over the server is always answered.
        if route.need == Need::Nothing {
            return Ok(Admitted { access: None, turn: None });
        }
        let turn = self.turn(head, route.verb)?;
        let access = self.identify(head, target, route);
        self.count_request(head, access.as_ref().ok().and_then(Option::as_ref))?;
        Ok(Admitted { access: access?, turn })
    }

    /// Who asks, if that is asked here.
    fn identify(
        &self,
        head: &Parts,
        target: &Target<'_>,
        route: &Route,
    ) -> Result<Option<Access>, Failure> {
        let Some(auth) = &self.auth else { return Ok(None) };
        if route.verb == Verb::Metrics && self.config.public_metrics {
            return Ok(None);
        }
        route.need.check(target, head.uri.query(), |action, subject| {
            let access = auth.authenticate(head, self.engine.now().wall);
            let allowed = access.and_then(|access| {
                access.check(action, subject)?;
                Ok(access)
            });
            allowed.map_err(|denied| self.deny(denied, subject))
        })
    }

    /// Turns somebody away.
    fn deny(&self, denied: Denied, subject: Subject<'_>) -> Failure {
        self.sheet.denied(denied);
        denied_on(denied, subject)
    }

    /// Refuses what the credential of a request does not allow besides what its route asks for.
    fn check(&self, head: &Parts, action: Action, subject: Subject<'_>) -> Result<(), Failure> {
        let Some(access) = head.extensions.get::<Access>() else { return Ok(()) };
        access.check(action, subject).map_err(|denied| self.deny(denied, subject))
    }

    /// What a live reader watches, when it has a credential.
    fn visit(&self, head: &Parts) -> Option<Box<Visit>> {
        let access = head.extensions.get::<Access>()?;
        Some(Box::new(access.watch(self.engine.now().wall)))
    }

    /// Serves a request, once it may open what it needs.
    async fn serve(
        self: &Arc<Self>,
        head: &Parts,
        body: Incoming,
        target: Target<'_>,
        verb: Verb,
    ) -> Answer {
        if !opens_a_file(&head.method, verb) {
            return dispatch(self, head, body, target, verb).await;
        }
        let files = Arc::clone(&self.files);
        let file = files.try_acquire_owned().map_err(|_none_left| {
            let detail = "The snapshots now read and written have all descriptors there are.";
            Failure::busy(detail, self.shares.files as u64).named("ulimit -n").closing()
        })?;
        let mut reply = dispatch(self, head, body, target, verb).await?;
        reply.body_mut().hold(file);
        Ok(reply)
    }

    /// The answer when there are too many requests at a time.
    pub(crate) fn crowded(&self) -> Reply {
        let (problem, headers) = Failure::many_streams(self.config.http2_streams_max).told(None);
        self.sheet.refused(problem.code, respond::is_limit(&problem));
        self.sheet.counted(None, problem.status.as_u16());
        let mut reply = respond::write(&problem, headers);
        respond::common(reply.headers_mut());
        reply
    }

    /// The answer when a handler has panicked. What it had submitted may have happened.
    pub(crate) fn panicked(&self) -> Reply {
        let Origin { request_id, .. } = Origin::unknown();
        tracing::error!(request_id, "a request's handler has panicked");
        let (mut problem, headers) = Failure::panicked().told(None);
        self.sheet.refused(problem.code, false);
        self.sheet.counted(None, problem.status.as_u16());
        problem.extra.push(("request_id", request_id.into()));
        let mut reply = respond::write(&problem, headers);
        respond::common(reply.headers_mut());
        if self.config.cors.is_open() {
            let any = HeaderValue::from_static("*");
            reply.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
        }
        reply
    }
}

/// A request that is to be served.
struct Admitted<'a> {
    access: Option<Access>,
    /// Its place among the requests of the moment; live readers have one of their own.
    turn: Option<Turn<'a>>,
}

/// Does what a route says. What needs much memory while it waits has a box of its own, so that the
/// small requests need little.
async fn dispatch(
    app: &Arc<App>,
    head: &Parts,
    body: Incoming,
    target: Target<'_>,
    verb: Verb,
) -> Answer {
    match target {
        Target::Stream { surface, name, resource } => {
            let place = Place { surface, name };
            let at = match &resource {
                Resource::SnapshotAt(at) | Resource::RetentionAt(at) => Some(at.as_str()),
                _ => None,
            };
            match verb {
                Verb::Append => append::append(app, head, body, place).await,
                Verb::Read => Box::pin(read::read(app, head, place)).await,
                Verb::Head => read::head(app, &place).await,
                Verb::Create => Box::pin(create::create(app, head, body, place)).await,
                Verb::Delete => delete::delete(app, place).await,
                Verb::AppendBatch => batch::append(app, head, body, place).await,
                Verb::Bootstrap => Box::pin(bootstrap::get(app, head, &place)).await,
                Verb::Redirect => snapshot::redirect(app, head, &place).await,
                Verb::Publish => Box::pin(snapshot::publish(app, head, body, place, at)).await,
                Verb::GetSnapshot => snapshot::get(app, head, &place, at.unwrap_or_default()).await,
                Verb::DeleteSnapshot => snapshot::delete(app, &place, at.unwrap_or_default()).await,
                Verb::Retain => retention::retain(app, head, place, at).await,
                Verb::GetAttributes => attributes::get(app, &place).await,
                Verb::SetAttributes => attributes::put(app, head, body, place).await,
                _ => unreachable!("the table has no such verb for a stream"),
            }
        }
        Target::Bucket { surface, bucket } => match verb {
            Verb::CreateBucket => bucket::create(app, head, surface, bucket).await,
            Verb::ShowBucket => bucket::show(app, &bucket).await,
            Verb::DeleteBucket => bucket::delete(app, bucket).await,
            _ => unreachable!("the table has no such verb for a bucket"),
        },
        Target::Listing { bucket, .. } => bucket::list(app, head, &bucket).await,
        Target::Root | Target::Operational(_) | Target::SubscriptionApi(_) => match verb {
            Verb::Version => Ok(health::version()),
            Verb::Alive => Ok(health::alive()),
            Verb::Ready => Ok(health::ready(app)),
            Verb::OpenApi => Ok(openapi::get()),
            Verb::Metrics => metrics::scrape(app).await,
            Verb::ListBuckets => bucket::list_buckets(app, head).await,
            Verb::ListBase => bucket::list_base(app, head).await,
            Verb::ListKeys => keys::list(app, head).await,
            Verb::CreateKey => Box::pin(keys::create(app, body)).await,
            Verb::RevokeKey => {
                let path = head.uri.path();
                keys::revoke(app, path.rsplit('/').next().unwrap_or_default()).await
            }
            _ => unreachable!("the table has no such verb for the server"),
        },
    }
}

/// Which durations a request's belongs to.
fn pace(verb: Option<Verb>, head: &Parts) -> Pace {
    let is_live = |query: &str| query.split('&').any(|pair| pair.starts_with("live="));
    match verb {
        Some(Verb::Append | Verb::AppendBatch) => Pace::Append,
        Some(Verb::Read) if head.uri.query().is_some_and(is_live) => Pace::Live,
        Some(Verb::Read | Verb::GetSnapshot | Verb::Bootstrap) => Pace::Read,
        _ => Pace::Other,
    }
}

/// Whether a request reads or writes the body of a snapshot, each by a descriptor of its own.
fn opens_a_file(method: &Method, verb: Verb) -> bool {
    match verb {
        Verb::Publish => true,
        Verb::GetSnapshot | Verb::Bootstrap => method == Method::GET,
        _ => false,
    }
}

/// The answer to whoever is turned away.
fn denied_on(denied: Denied, subject: Subject<'_>) -> Failure {
    match (denied, subject) {
        (Denied::Missing, _) => Failure::unauthorized(
            "UNAUTHORIZED",
            "Nobody without a credential may do this. Send Authorization: Bearer and an API key.",
            HeaderValue::from_static("Bearer realm=\"headwater\""),
        ),
        (Denied::Invalid, _) => Failure::unauthorized(
            "INVALID_CREDENTIAL",
            "The credential is not known here, was revoked, or is over.",
            HeaderValue::from_static("Bearer realm=\"headwater\", error=\"invalid_token\""),
        ),
        (Denied::Concealed, Subject::Stream(_)) => Refusal::StreamNotFound.into(),
        (Denied::Concealed, Subject::Bucket(_) | Subject::Listing(..)) => {
            Refusal::BucketNotFound.into()
        }
        (Denied::Forbidden | Denied::Concealed, _) => Failure::problem(
            StatusCode::FORBIDDEN,
            "FORBIDDEN",
            "Not allowed",
            "The credential is good, but its scopes do not allow this.",
        ),
    }
}

fn is_get(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
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
