//! A request, and what the model says of its answer.

use std::fmt;

use headwater_torture::http::Request;

/// Through which of the three surfaces a stream is addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// `/{bucket}/{stream}`
    Root,
    /// `/ds/{bucket}/{stream}`
    Ds,
    /// `/v1/stream/{path}`: the bucket is part of the path, and no bucket at all.
    Base,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The method.
    pub method: &'static str,
    /// Which surface.
    pub surface: Surface,
    /// The bucket's id, unescaped.
    pub bucket: String,
    /// The stream's id; a request about the bucket has none.
    pub stream: Option<String>,
    /// What follows the stream, or the bucket: `snapshot/42`, or nothing.
    pub resource: String,
    /// Parameters, unescaped.
    pub query: Vec<(&'static str, String)>,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Ask {
    /// A GET of a stream.
    pub fn about(surface: Surface, bucket: &str, stream: &str) -> Self {
        Self {
            method: "GET",
            surface,
            bucket: bucket.to_owned(),
            stream: Some(stream.to_owned()),
            resource: String::new(),
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(is, _)| is.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The value of a parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(is, _)| *is == name).map(|(_, value)| value.as_str())
    }

    /// The path of the stream or bucket itself.
    pub fn home(&self) -> String {
        let prefix = match self.surface {
            Surface::Root => "",
            Surface::Ds => "/ds",
            Surface::Base => "/v1/stream",
        };
        let stream = self.stream.as_ref().map(|id| format!("/{}", escape(id)));
        format!("{prefix}/{}{}", self.bucket, stream.unwrap_or_default())
    }

    /// The path of a resource of the stream.
    pub fn at(&self, resource: &str) -> String {
        let tilde = if self.surface == Surface::Base { "/~" } else { "" };
        let segments = resource.split('/').filter(|segment| !segment.is_empty());
        let escaped: Vec<String> = segments.flat_map(|it| ["/".to_owned(), escape(it)]).collect();
        let resource = escaped.concat();
        let tilde = if resource.is_empty() { "" } else { tilde };
        format!("{}{tilde}{resource}", self.home())
    }

    /// Path and query.
    pub fn target(&self) -> String {
        let mut target = self.at(&self.resource);
        for (i, (name, value)) in self.query.iter().enumerate() {
            target.push(if i == 0 { '?' } else { '&' });
            target.extend([name, "=", &escape(value)]);
        }
        target
    }

    /// As it goes over the wire.
    pub fn request(&self) -> Request {
        let request = Request::new(self.method, self.target()).content(self.body.clone());
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target())?;
        for (name, value) in &self.headers {
            write!(f, " {name}={value:?}")?;
        }
        if !self.body.is_empty() {
            write!(f, " <- \"{}\"", excerpt(&self.body))?;
        }
        Ok(())
    }
}

/// The beginning of some bytes, in printable form.
pub fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes[..bytes.len().min(160)].escape_ascii();
    if bytes.len() > 160 {
        format!("{shown}… ({} bytes)", bytes.len())
    } else {
        shown.to_string()
    }
}

fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// What a body must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Exactly these bytes.
    Exact(Vec<u8>),
    /// A problem with this code.
    Problem(&'static str),
    /// JSON that equals this one, wherever this one is not `null`.
    Json(serde_json::Value),
    /// The parts of a multipart body: content type and bytes.
    Parts(Vec<(String, Vec<u8>)>),
    /// The events of an SSE response: all data, and the last control event without its cursor.
    Events(Vec<u8>, serde_json::Value),
}

/// What an answer must be. Of the headers in [`CHECKED`], it has these and no others.
#[derive(Debug, Clone)]
pub struct Expect {
    /// The status.
    pub status: u16,
    /// The checked headers; a value that ends in `*` is a beginning.
    pub headers: Vec<(&'static str, String)>,
    /// The body. That of a HEAD is not compared.
    pub body: Body,
}

impl Expect {
    /// A success without a body.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Exact(Vec::new()) }
    }

    /// A refusal.
    pub fn problem(status: u16, code: &'static str) -> Self {
        let body = Body::Problem(code);
        Self { status, headers: Vec::new(), body }.with("content-type", "application/problem+json")
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Adds a header if there is a value.
    #[must_use]
    pub fn with_some(self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds `true` if so.
    #[must_use]
    pub fn flag(self, name: &'static str, set: bool) -> Self {
        self.with_some(name, set.then_some("true"))
    }
}

/// The headers that are compared.
pub const CHECKED: [&str; 24] = [
    "content-type",
    "location",
    "link",
    "etag",
    "accept-ranges",
    "preference-applied",
    "stream-next-offset",
    "stream-up-to-date",
    "stream-closed",
    "stream-cursor",
    "stream-ttl",
    "stream-expires-at",
    "stream-sse-data-encoding",
    "stream-snapshot-offset",
    "stream-snapshot-digest",
    "stream-retained-offset",
    "stream-record-first",
    "stream-record-start",
    "stream-record-next",
    "stream-extensions",
    "producer-epoch",
    "producer-seq",
    "producer-expected-seq",
    "producer-received-seq",
];
