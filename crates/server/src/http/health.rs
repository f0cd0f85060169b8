//! What operators and load balancers ask.

use std::sync::Arc;

use headwater_core::wire::problem::Problem;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use super::App;
use super::respond::{self, Failure, Reply};

/// `GET /` and `GET /-/version`.
pub(super) fn version() -> Reply {
    let value = json!({ "name": "headwater", "version": env!("CARGO_PKG_VERSION") });
    respond::json(StatusCode::OK, &value)
}

/// `GET /-/healthz`: the process answers.
pub(super) fn alive() -> Reply {
    respond::json(StatusCode::OK, &json!({ "status": "ok" }))
}

/// `GET /-/readyz`: recovered (it listens only then) and not draining.
pub(super) fn ready(app: &Arc<App>) -> Reply {
    if *app.draining.borrow() {
        respond::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "draining" }))
    } else {
        respond::json(StatusCode::OK, &json!({ "status": "ready" }))
    }
}

/// The subscription API, which is reserved and not built.
pub(super) fn no_subscriptions() -> Failure {
    let detail = "This server has no subscriptions.";
    let mut problem = Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", "No such resource", detail);
    problem.extra.push(("error", json!({ "code": "NOT_FOUND", "message": detail })));
    Failure::Problem(Box::new(problem), HeaderMap::new())
}
