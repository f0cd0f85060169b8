//! One HTTP request and its answer. Nothing is tried twice here.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};

use serde_json::Value;
use ureq::http::{Method, Request, Response, StatusCode, request};
use ureq::tls::TlsConfig;
use ureq::{Agent, Body, SendBody};

use crate::address::{BaseUrl, StreamAddress, encode};
use crate::args::{Authorities, ServerArgs};
use crate::failure::{Exit, Failure, Problem};
use crate::hint::Subject;

/// A connection to one server.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: BaseUrl,
    authorization: Option<String>,
}

/// A request in the making.
#[must_use = "a call does nothing until it is sent"]
pub(crate) struct Call<'a> {
    client: &'a Client,
    builder: request::Builder,
    method: Method,
    path: String,
    what: String,
    subject: Subject,
}

/// The body of a request.
pub(crate) enum Payload<'a> {
    Bytes(&'a [u8]),
    /// Sent with its length.
    File(File),
    /// Sent in chunks.
    Reader(Box<dyn Read>),
}

/// A successful answer. Its body is read on demand.
#[derive(Debug)]
pub(crate) struct Answer {
    response: Response<Body>,
    what: String,
}

/// A body up to here is sent without asking the server first.
const SMALL_BYTES_MAX: usize = 256 * 1024;
/// A bucket's page of 1000 streams with the longest names stays well below.
const JSON_BYTES_MAX: u64 = 16 << 20;
/// An error body, or what of it matters.
const PROBLEM_BYTES_MAX: u64 = 1 << 20;

impl Client {
    pub(crate) fn new(args: &ServerArgs) -> Self {
        let timeout = Some(args.timeout.0);
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .redirect_auth_headers(ureq::config::RedirectAuthHeaders::SameHost)
            .user_agent(concat!("headwater/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(timeout)
            .timeout_recv_response(timeout)
            .timeout_per_read(timeout)
            .timeout_per_write(timeout);
        if args.url.is_loopback() {
            config = config.proxy(None);
        }
        if let Some(Authorities(trusted)) = &args.ca {
            let tls = TlsConfig::builder().root_certs(trusted.clone()).build();
            config = config.tls_config(tls);
        }
        Self {
            agent: config.build().new_agent(),
            base: args.url.clone(),
            authorization: args.auth.clone(),
        }
    }

    /// A request about a stream. `what` completes "cannot …".
    pub(crate) fn stream_call(
        &self,
        method: Method,
        path: String,
        stream: &StreamAddress,
        what: impl Display,
    ) -> Call<'_> {
        self.call(method, path, Subject::stream(stream), what)
    }

    /// A request about a bucket, or about the server.
    pub(crate) fn call(
        &self,
        method: Method,
        path: String,
        subject: Subject,
        what: impl Display,
    ) -> Call<'_> {
        let mut builder = Request::builder().method(method.clone());
        if let Some(value) = &self.authorization {
            builder = builder.header("authorization", value);
        }
        Call { client: self, builder, method, path, what: format!("cannot {what}"), subject }
    }

    /// HEAD of `path`, the stream or a part of it. Refusals of HEAD have no body, so a refused one
    /// is asked again as a GET to learn why; of the stream itself that reads nothing.
    pub(crate) fn head(
        &self,
        stream: &StreamAddress,
        path: &str,
        what: &str,
    ) -> Result<Answer, Failure> {
        let call = |method| self.stream_call(method, path.to_owned(), stream, what);
        match call(Method::HEAD).send(Payload::none()) {
            Ok(answer) => Ok(answer),
            Err(failure) if failure.is_transient() => Err(failure),
            Err(failure) => {
                let again = call(Method::GET).query("offset", "now");
                Err(again.send(Payload::none()).err().unwrap_or(failure))
            }
        }
    }
}

impl Call<'_> {
    pub(crate) fn header(mut self, name: &str, value: impl Display) -> Self {
        self.builder = self.builder.header(name, value.to_string());
        self
    }

    /// A header that is only sent when there is a value.
    pub(crate) fn header_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }

    pub(crate) fn query(mut self, name: &str, value: impl Display) -> Self {
        let mark = if self.path.contains('?') { '&' } else { '?' };
        self.path.push(mark);
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encode(&value.to_string()));
        self
    }

    /// A parameter that is only sent when there is a value.
    pub(crate) fn query_if(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sends it. Anything but a success is a [`Failure`].
    pub(crate) fn send(mut self, payload: Payload<'_>) -> Result<Answer, Failure> {
        if payload.is_large() {
            // So that a refusal comes instead of the body, and not in the middle of it.
            self = self.header("expect", "100-continue");
        }
        let agent = &self.client.agent;
        let builder = self.builder.uri(self.client.base.join(&self.path));
        let has_body = matches!(self.method, Method::PUT | Method::POST);
        let request = builder.body(()).map_err(|error| {
            let what = format!("{}: a value does not fit into a header", self.what);
            Failure::because(Exit::Usage, what, &error)
        })?;
        let sent = match payload {
            Payload::Bytes(bytes) if has_body => agent.run(request.map(|()| bytes)),
            Payload::Bytes(_) => agent.run(request),
            Payload::File(file) => agent.run(request.map(|()| file)),
            Payload::Reader(reader) => {
                agent.run(request.map(|()| SendBody::from_owned_reader(reader)))
            }
        };
        let response = match sent {
            Ok(response) => response,
            Err(error) => return Err(no_answer(&self.what, &self.client.base, error)),
        };
        let status = response.status();
        let answer = Answer { response, what: self.what };
        if status.is_success() {
            Ok(answer)
        } else {
            Err(answer.into_failure(status, &self.subject))
        }
    }
}

impl Payload<'_> {
    pub(crate) fn none() -> Self {
        Self::Bytes(&[])
    }

    fn is_large(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.len() > SMALL_BYTES_MAX,
            Self::File(_) | Self::Reader(_) => true,
        }
    }
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A header as text; none if it is missing or no text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// A header as a value of an answer: null if it is missing.
    pub(crate) fn text(&self, name: &str) -> Value {
        self.header(name).into()
    }

    /// A header as a number: null if it is missing or no number.
    pub(crate) fn number(&self, name: &str) -> Value {
        self.header(name).and_then(|text| text.parse::<u64>().ok()).into()
    }

    /// Whether a header says `true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.header(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A header that the protocol promises on this answer.
    pub(crate) fn promised(&self, name: &str) -> Result<&str, Failure> {
        self.header(name)
            .ok_or_else(|| self.nonsense(format_args!("the answer has no {name} header")))
    }

    /// The body, to be read bit by bit.
    pub(crate) fn into_reader(self) -> impl Read {
        self.response.into_body().into_reader()
    }

    /// The whole body, of at most `bytes_max` bytes.
    pub(crate) fn into_bytes(self, bytes_max: u64) -> Result<Vec<u8>, Failure> {
        let Self { response, what } = self;
        let mut body = response.into_body();
        body.with_config()
            .limit(bytes_max)
            .read_to_vec()
            .map_err(|error| lost(&what, &error.into_io()))
    }

    /// The whole body as JSON.
    pub(crate) fn into_json(self) -> Result<Value, Failure> {
        let what = self.what.clone();
        let body = self.into_bytes(JSON_BYTES_MAX)?;
        serde_json::from_slice(&body).map_err(|error| {
            Failure::because(
                Exit::Failed,
                format!("{what}: the answer is no JSON; is this a headwater server?"),
                &error,
            )
        })
    }

    /// What a body that broke off means. Made before the answer is taken apart.
    pub(crate) fn on_lost(&self) -> impl Fn(&io::Error) -> Failure + use<> {
        let what = self.what.clone();
        move |error| lost(&what, error)
    }

    /// The answer is not what the protocol promises.
    pub(crate) fn nonsense(&self, why: impl Display) -> Failure {
        Failure::new(Exit::Failed, format!("{}: {why}", self.what))
    }

    fn into_failure(self, status: StatusCode, subject: &Subject) -> Failure {
        let what = self.what.clone();
        // A body that breaks off leaves the status, which says enough.
        let body = self.into_bytes(PROBLEM_BYTES_MAX).unwrap_or_default();
        Failure::refused(&what, status, &Problem::parse(&body), subject)
    }
}

/// The answer's body ended before its end.
fn lost(what: &str, error: &io::Error) -> Failure {
    Failure::because(Exit::Unavailable, format!("{what}: the answer broke off"), error)
}

/// There was no answer at all.
fn no_answer(what: &str, base: &BaseUrl, error: ureq::Error) -> Failure {
    use ureq::Error;
    match error {
        Error::BadUri(_) | Error::InvalidProxyUrl | Error::Http(_) => {
            Failure::because(Exit::Usage, what, &error)
        }
        error => {
            // `into_io` unwraps the operating system's own words.
            let error = error.into_io();
            let hint = match error.kind() {
                io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::UnexpectedEof => {
                    "the connection was closed in the middle of the request, as for a body that \
                     turns out larger than the server takes"
                }
                _ => {
                    "is a server running? `headwater dev` starts one on this machine; --url or \
                     STREAM_URL names another"
                }
            };
            let what = format!("{what}: no answer from {base}");
            Failure::because(Exit::Unavailable, what, &error).hint(hint.to_owned())
        }
    }
}
