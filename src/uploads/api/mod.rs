//! The API of uploads `/v1/uploads`, its description `/v1/openapi.json`, and the page `/u` on which a person brings a file.
//!
//! The backend's key makes sessions; a session's token does the rest. Nothing is decided here: handlers read a request, ask
//! [`Commands`], and answer. A thread and a runtime of its own; a surface that cannot be opened is an incident. If we die, nothing
//! is owed: whoever asked asks again.

mod around;
mod content;
mod document;
mod handlers;
mod page;
mod proof;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::NAME;
use super::card::UNAVAILABLE;
use super::commands::Commands;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::IncidentKey;
use crate::web::listener::{Closed, Surface};
use crate::web::name::Name;

/// Requests that wait for a change at once; a further one is answered at once.
const WAITERS: usize = 64;
/// Longest wait for a change.
pub const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What handlers need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApiState {
    /// The commands.
    pub commands: Commands,
    waiters: Arc<Semaphore>,
}

impl ApiState {
    /// The state over `commands`.
    #[must_use]
    pub fn new(commands: Commands) -> Self {
        Self { commands, waiters: Arc::new(Semaphore::new(WAITERS)) }
    }
}

/// The API as its listener opens it.
#[derive(Debug)]
pub struct Api {
    commands: Result<Commands, String>,
    address: Option<String>,
    origin: String,
    allowed_origins: Vec<String>,
}

impl Api {
    /// The API over `commands`, or why there are none, at the address of the configuration they have.
    #[must_use]
    pub fn new(commands: Result<Commands, String>, uploads: &crate::config::Uploads) -> Self {
        let (address, origin) = (uploads.listen.clone(), uploads.origin.clone());
        Self { commands, address, origin, allowed_origins: uploads.allowed_origins.clone() }
    }
}

impl Surface for Api {
    const NAME: Name = NAME;
    const UNAVAILABLE: IncidentKey = UNAVAILABLE;
    type Ready = Commands;

    fn address(&self) -> Option<String> {
        self.address.clone()
    }

    async fn ready(&self) -> Result<Commands, Closed> {
        self.commands.clone().map_err(|what| Closed {
            what,
            command: "sudo maple-router check",
            advice: "mend it and restart; files that are brought already are proven and scanned meanwhile"
                .to_owned(),
        })
    }

    fn router(&self, commands: Commands, at: SocketAddr, _: &mut Tasks, _: &CancellationToken) -> Router {
        tracing::info!(%at, "uploads are taken at {at}");
        router(commands, at, &self.origin, &self.allowed_origins)
    }

    fn closed(&self, why: &Closed) {
        tracing::error!("uploads are not taken: {}; routing goes on", why.what);
    }
}

/// Everything that is answered, with what is around it.
pub fn router(commands: Commands, at: SocketAddr, origin: &str, allowed_origins: &[String]) -> Router {
    let store = commands.config.borrow().signed_url.storage_endpoint.clone();
    let (api, description) = paths().with_state(ApiState::new(commands)).split_for_parts();
    let text: Arc<str> = document::text_of(&description).into();
    around::around(api.layer(Extension(text)).merge(page::routes(&store)), at, origin, allowed_origins)
}

/// The description of the API.
#[must_use]
pub fn description() -> OpenApi {
    paths().into_openapi()
}

fn paths() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(document::head())
        .routes(routes!(handlers::create))
        .routes(routes!(handlers::show, handlers::abort))
        .routes(routes!(handlers::parts))
        .routes(routes!(handlers::complete))
        .routes(routes!(handlers::commit))
        .routes(routes!(handlers::attach))
        .routes(routes!(document::openapi))
}
