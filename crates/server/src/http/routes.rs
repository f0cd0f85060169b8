//! Every route of the server in one table: where it is, what does it, and what a credential must
//! allow. What is not in here does not exist, so that no route can be without a rule.

use headwater_core::access::{Action, Subject};
use headwater_core::ids::BucketId;
use headwater_core::wire::path::{Resource, Target};
use headwater_core::wire::query::ListingQuery;
use http::{Method, StatusCode};

use super::respond::Failure;

/// A place that requests are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// `/`
    Root,
    /// `/-/healthz`
    Health,
    /// `/-/readyz`
    Ready,
    /// `/-/version`
    Version,
    /// `/-/openapi.json`
    OpenApi,
    /// `/-/metrics`
    Metrics,
    /// `/-/buckets`
    Buckets,
    /// `/-/streams`
    BaseStreams,
    /// `/-/keys`
    Keys,
    /// `/-/keys/{id}`
    Key,
    /// `/{bucket}`
    Bucket,
    /// `/{bucket}/streams`
    Listing,
    /// A stream, and what belongs to it.
    Stream,
    /// `…/snapshot`
    Snapshot,
    /// `…/snapshot/{offset}`
    SnapshotAt,
    /// `…/retention`
    Retention,
    /// `…/retention/{offset}`
    RetentionAt,
    /// `…/bootstrap`
    Bootstrap,
    /// `…/append-batch`
    AppendBatch,
    /// `…/attrs`
    Attributes,
}

/// Declares the verbs, with their names in metrics and logs.
macro_rules! verbs {
    ($($name:ident = $text:literal,)+) => {
        /// What is done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Verb {
            $($name,)+
        }

        impl Verb {
            /// All of them, each at the place of its number.
            pub(crate) const ALL: [Self; [$($text),+].len()] = [$(Self::$name),+];

            /// As metrics and logs name it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

verbs! {
    Version = "version",
    Alive = "alive",
    Ready = "ready",
    OpenApi = "openapi",
    Metrics = "metrics",
    ListBuckets = "list_buckets",
    ListBase = "list_base",
    ListKeys = "list_keys",
    CreateKey = "create_key",
    RevokeKey = "revoke_key",
    CreateBucket = "create_bucket",
    ShowBucket = "show_bucket",
    DeleteBucket = "delete_bucket",
    List = "list",
    Create = "create",
    Append = "append",
    Head = "head",
    Read = "read",
    Delete = "delete",
    Publish = "publish",
    Redirect = "redirect",
    GetSnapshot = "get_snapshot",
    DeleteSnapshot = "delete_snapshot",
    Retain = "retain",
    Bootstrap = "bootstrap",
    AppendBatch = "append_batch",
    GetAttributes = "get_attributes",
    SetAttributes = "set_attributes",
}

/// What a credential must allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: anybody may ask.
    Nothing,
    /// An action on the server itself.
    Node(Action),
    /// An action on the bucket of the path.
    Bucket(Action),
    /// To read the streams that are listed.
    Listing,
    /// An action on the stream of the path.
    Stream(Action),
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) at: Spot,
    pub(crate) method: Method,
    pub(crate) verb: Verb,
    pub(crate) need: Need,
}

const fn route(method: Method, at: Spot, verb: Verb, need: Need) -> Route {
    Route { at, method, verb, need }
}

/// The table. HEAD works wherever GET does. A fork also has to be allowed to read its source.
pub(crate) static ROUTES: &[Route] = &[
    // The busiest first.
    route(Method::POST, Spot::Stream, Verb::Append, Need::Stream(Action::Append)),
    route(Method::GET, Spot::Stream, Verb::Read, Need::Stream(Action::Read)),
    route(Method::HEAD, Spot::Stream, Verb::Head, Need::Stream(Action::Read)),
    route(Method::PUT, Spot::Stream, Verb::Create, Need::Stream(Action::Create)),
    route(Method::DELETE, Spot::Stream, Verb::Delete, Need::Stream(Action::Delete)),
    route(Method::POST, Spot::AppendBatch, Verb::AppendBatch, Need::Stream(Action::Append)),
    route(Method::GET, Spot::Bootstrap, Verb::Bootstrap, Need::Stream(Action::Read)),
    route(Method::GET, Spot::Snapshot, Verb::Redirect, Need::Stream(Action::Read)),
    route(Method::PUT, Spot::Snapshot, Verb::Publish, Need::Stream(Action::Snapshot)),
    route(Method::GET, Spot::SnapshotAt, Verb::GetSnapshot, Need::Stream(Action::Read)),
    route(Method::PUT, Spot::SnapshotAt, Verb::Publish, Need::Stream(Action::Snapshot)),
    route(Method::DELETE, Spot::SnapshotAt, Verb::DeleteSnapshot, Need::Stream(Action::Snapshot)),
    route(Method::PUT, Spot::Retention, Verb::Retain, Need::Stream(Action::Snapshot)),
    route(Method::PUT, Spot::RetentionAt, Verb::Retain, Need::Stream(Action::Snapshot)),
    route(Method::GET, Spot::Attributes, Verb::GetAttributes, Need::Stream(Action::Read)),
    route(Method::PUT, Spot::Attributes, Verb::SetAttributes, Need::Stream(Action::Create)),
    route(Method::GET, Spot::Listing, Verb::List, Need::Listing),
    route(Method::GET, Spot::Bucket, Verb::ShowBucket, Need::Bucket(Action::Read)),
    route(Method::PUT, Spot::Bucket, Verb::CreateBucket, Need::Bucket(Action::Admin)),
    route(Method::DELETE, Spot::Bucket, Verb::DeleteBucket, Need::Bucket(Action::Admin)),
    route(Method::GET, Spot::Root, Verb::Version, Need::Nothing),
    route(Method::GET, Spot::Health, Verb::Alive, Need::Nothing),
    route(Method::GET, Spot::Ready, Verb::Ready, Need::Nothing),
    route(Method::GET, Spot::Version, Verb::Version, Need::Nothing),
    route(Method::GET, Spot::OpenApi, Verb::OpenApi, Need::Nothing),
    route(Method::GET, Spot::Metrics, Verb::Metrics, Need::Node(Action::Admin)),
    route(Method::GET, Spot::Buckets, Verb::ListBuckets, Need::Node(Action::Read)),
    route(Method::GET, Spot::BaseStreams, Verb::ListBase, Need::Listing),
    route(Method::GET, Spot::Keys, Verb::ListKeys, Need::Node(Action::Admin)),
    route(Method::POST, Spot::Keys, Verb::CreateKey, Need::Node(Action::Admin)),
    route(Method::DELETE, Spot::Key, Verb::RevokeKey, Need::Node(Action::Admin)),
];

/// The methods in the order in which `Allow` names them.
const METHODS: [Method; 5] = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE];

/// The row for a request: 404 where nothing is, 405 where something else can be asked.
pub(crate) fn find(method: &Method, target: &Target<'_>) -> Result<&'static Route, Failure> {
    let at = at(target)?;
    let exact =
        |wanted: &Method| ROUTES.iter().find(|route| route.at == at && route.method == *wanted);
    let found =
        exact(method).or_else(|| if *method == Method::HEAD { exact(&Method::GET) } else { None });
    found.ok_or_else(|| match at {
        Spot::Listing => super::bucket::reserved_name(),
        _ => Failure::method(&allow(at)),
    })
}

/// What can be asked of a place, as `Allow` says it.
fn allow(at: Spot) -> String {
    let has =
        |method: &Method| ROUTES.iter().any(|route| route.at == at && route.method == *method);
    let mut names: Vec<&str> = METHODS
        .iter()
        .filter(|method| has(method) || (**method == Method::HEAD && has(&Method::GET)))
        .map(Method::as_str)
        .collect();
    names.push(Method::OPTIONS.as_str());
    names.join(", ")
}

fn at(target: &Target<'_>) -> Result<Spot, Failure> {
    Ok(match target {
        Target::Stream { resource, .. } => match resource {
            Resource::Stream => Spot::Stream,
            Resource::Snapshot => Spot::Snapshot,
            Resource::SnapshotAt(_) => Spot::SnapshotAt,
            Resource::Retention => Spot::Retention,
            Resource::RetentionAt(_) => Spot::RetentionAt,
            Resource::Bootstrap => Spot::Bootstrap,
            Resource::AppendBatch => Spot::AppendBatch,
            Resource::Attributes => Spot::Attributes,
        },
        Target::Bucket { .. } => Spot::Bucket,
        Target::Listing { .. } => Spot::Listing,
        Target::Root => Spot::Root,
        Target::Operational(rest) => match *rest {
            "healthz" => Spot::Health,
            "readyz" => Spot::Ready,
            "version" => Spot::Version,
            "openapi.json" => Spot::OpenApi,
            "metrics" => Spot::Metrics,
            "buckets" => Spot::Buckets,
            "streams" => Spot::BaseStreams,
            "keys" => Spot::Keys,
            rest if rest.strip_prefix("keys/").is_some_and(|id| !id.contains('/')) => Spot::Key,
            _ => return Err(nothing_here()),
        },
        Target::SubscriptionApi(_) => return Err(super::health::no_subscriptions()),
    })
}

fn nothing_here() -> Failure {
    Failure::problem(
        StatusCode::NOT_FOUND,
        "NOT_FOUND",
        "No such resource",
        "There is nothing under this path.",
    )
}

impl Need {
    /// What of `target` the need is about, and the action; nothing when there is no need. `query`
    /// is that of the request: a listing is about what it lists.
    pub(crate) fn check<T>(
        self,
        target: &Target<'_>,
        query: Option<&str>,
        check: impl FnOnce(Action, Subject<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let base = BucketId::base();
        let (action, subject) = match (self, target) {
            (Self::Nothing, _) => return Ok(None),
            (Self::Node(action), _) => (action, Subject::Node),
            (Self::Bucket(action), Target::Bucket { bucket, .. }) => {
                (action, Subject::Bucket(bucket))
            }
            (Self::Stream(action), Target::Stream { name, .. }) => (action, Subject::Stream(name)),
            (Self::Listing, target) => {
                let bucket = match target {
                    Target::Listing { bucket, .. } => bucket,
                    _ => &base,
                };
                let query = ListingQuery::parse(query)?;
                return check(Action::Read, Subject::Listing(bucket, &query.prefix)).map(Some);
            }
            // A row that asks for what its place does not have lets nobody in.
            (Self::Bucket(_) | Self::Stream(_), _) => return Err(nothing_here()),
        };
        check(action, subject).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::wire::path;

    use super::*;

    #[test]
    fn no_two_rows_are_about_the_same() {
        for (at, row) in ROUTES.iter().enumerate() {
            let same = |other: &Route| other.at == row.at && other.method == row.method;
            assert_eq!(ROUTES.iter().position(same), Some(at), "{row:?}");
        }
    }

    #[test]
    fn only_what_tells_nothing_needs_nothing() {
        for row in ROUTES.iter().filter(|row| row.need == Need::Nothing) {
            assert!(
                matches!(row.verb, Verb::Version | Verb::Alive | Verb::Ready | Verb::OpenApi),
                "{row:?}"
            );
        }
    }

    #[test]
    fn a_need_fits_its_place() {
        for row in ROUTES {
            let path = match row.at {
                Spot::Bucket => "/demo",
                Spot::Listing => "/demo/streams",
                Spot::BaseStreams => "/-/streams",
                Spot::Stream => "/demo/a",
                Spot::Snapshot => "/demo/a/snapshot",
                Spot::SnapshotAt => "/demo/a/snapshot/1",
                Spot::Retention => "/demo/a/retention",
                Spot::RetentionAt => "/demo/a/retention/1",
                Spot::Bootstrap => "/demo/a/bootstrap",
                Spot::AppendBatch => "/demo/a/append-batch",
                Spot::Attributes => "/demo/a/attrs",
                Spot::Root => "/",
                Spot::Health => "/-/healthz",
                Spot::Ready => "/-/readyz",
                Spot::Version => "/-/version",
                Spot::OpenApi => "/-/openapi.json",
                Spot::Metrics => "/-/metrics",
                Spot::Buckets => "/-/buckets",
                Spot::Keys => "/-/keys",
                Spot::Key => "/-/keys/1",
            };
            let target = path::parse(path).unwrap();
            assert_eq!(find(&row.method, &target).unwrap().verb, row.verb, "{path}");
            let is_node = |_: Action, subject: Subject<'_>| Ok(subject == Subject::Node);
            let about_node = row.need.check(&target, None, is_node).unwrap();
            let expected = match row.need {
                Need::Nothing => None,
                Need::Node(_) => Some(true),
                _ => Some(false),
            };
            assert_eq!(about_node, expected, "{path}");
        }
    }
}
