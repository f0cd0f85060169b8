//! What operators and load balancers ask.

use std::sync::Arc;

use headwater_core::wire::problem::Problem;
use headwater_storage::Kind;
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

/// `GET /-/readyz`: recovered (it listens only then), the disk takes new data, and not draining.
/// 503 says which of these is not so.
pub(super) fn ready(app: &Arc<App>) -> Reply {
    let draining = *app.draining.borrow();
    let (disk, disk_status) = match app.engine.store().check_writable() {
        Ok(()) => ("writable", "ready"),
        Err(error) if error.kind == Kind::Full => ("full", "disk_full"),
        Err(_) => ("failed", "disk_failed"),
    };
    let status = if draining { "draining" } else { disk_status };
    let code = if status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let told = json!({ "status": status, "recovered": true, "disk": disk, "draining": draining });
    respond::json(code, &told)
}

/// The subscription API, which is reserved and not built.
pub(super) fn no_subscriptions() -> Failure {
    let detail = "This server has no subscriptions.";
    let mut problem = Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", "No such resource", detail);
    problem.extra.push(("error", json!({ "code": "NOT_FOUND", "message": detail })));
    Failure::Problem(Box::new(problem), HeaderMap::new())
}
