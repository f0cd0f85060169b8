//! `DELETE {stream}`.

use std::sync::Arc;

use headwater_core::command::Command;
use http::StatusCode;

use super::respond::{self, Answer};
use super::{App, Place};

pub(super) async fn delete(app: &Arc<App>, place: Place) -> Answer {
    app.must_exist(&place).await?;
    app.engine.submit(&Command::Delete(place.name))?.wait().await?.decided()?;
    Ok(respond::status(StatusCode::NO_CONTENT))
}
