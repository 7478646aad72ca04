//! The API `/api/grey-queue` and `/api/screening`, and its description `/api/openapi.json`, which is generated from the handlers.
//!
//! Reads show what `queries::review` composes, decisions go through `decide` and
//! `bulk`: nothing is decided here. If we die, nothing is owed.

mod bulk;
mod changes;
mod command;
mod content;
mod document;
mod entry;
mod list;
mod precondition;
mod schema;
mod screening;

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::access::{Role, Visitor};
use super::decide::person;
use super::live::Live;
use super::problem::Problem;
use crate::grey_queue::commands::Commands;
use crate::grey_queue::decide::Person;
use crate::screening::store::ScreeningStore;

/// What the API needs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApiState {
    /// Commands over the desk's own connections.
    pub commands: Arc<Commands>,
    /// The runs of screening, over the same connections.
    pub screening: ScreeningStore,
    /// The changes of the same queue.
    pub live: Live,
}

impl ApiState {
    /// The API of `commands`, whose store has the desk's own connections.
    #[must_use]
    pub fn new(commands: Commands) -> Self {
        let live = Live::new(commands.store.clone(), Arc::clone(&commands.clock));
        let screening = ScreeningStore::new(commands.store.pool().clone(), "desk");
        Self { commands: Arc::new(commands), screening, live }
    }
}

/// The routes, behind the login.
pub fn routes(state: ApiState) -> Router {
    let (router, description) = paths().with_state(state).split_for_parts();
    let text: Arc<str> = document::text(&description).into();
    router.layer(Extension(text))
}

/// The description of the API.
#[must_use]
pub fn description() -> OpenApi {
    paths().into_openapi()
}

fn paths() -> OpenApiRouter<ApiState> {
    let plain = OpenApiRouter::new()
        .routes(routes!(list::summary))
        .routes(routes!(changes::changes))
        .routes(routes!(entry::entry))
        .routes(routes!(entry::history))
        .routes(routes!(entry::transitions))
        .routes(routes!(command::assign))
        .routes(routes!(command::unassign))
        .routes(routes!(command::escalate))
        .routes(routes!(command::de_escalate))
        .routes(routes!(command::resolve))
        .routes(routes!(command::reject))
        .routes(routes!(command::dismiss))
        .routes(routes!(command::reopen))
        .routes(routes!(command::reset))
        .routes(routes!(command::start))
        .routes(routes!(bulk::bulk))
        .routes(routes!(screening::forms))
        .routes(routes!(screening::jobs))
        .routes(routes!(screening::waivers))
        .routes(routes!(screening::sla))
        .routes(routes!(screening::show))
        .routes(routes!(screening::again))
        .routes(routes!(document::openapi))
        .layer(from_fn(no_query));
    let lists = OpenApiRouter::with_openapi(document::head());
    lists.routes(routes!(list::list)).routes(routes!(screening::list)).merge(plain)
}

/// Refuses parameters where there are none: what is misspelt, or belongs elsewhere, would otherwise do nothing, silently.
async fn no_query(request: Request, next: Next) -> Response {
    match request.uri().query().filter(|query| !query.is_empty()) {
        None => next.run(request).await,
        Some(query) => {
            let name =
                url::form_urlencoded::parse(query.as_bytes()).next().map(|(name, _)| name.into_owned());
            let what = format!("There is no parameter {} here.", name.unwrap_or_default());
            Problem::bad_request(what).into_response()
        }
    }
}

/// The id in a path. What can be no id is nobody's.
struct EntryId(Uuid);

impl<S: Send + Sync> FromRequestParts<S> for EntryId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let id = text.ok().and_then(|Path(text)| Uuid::try_parse(&text).ok());
        id.map(Self).ok_or_else(|| Problem::not_found("such entry"))
    }
}

/// Somebody who may decide: a viewer is refused before anything else is looked at.
struct Decider(Person);

impl<S: Send + Sync> FromRequestParts<S> for Decider {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let visitor = Visitor::from_request_parts(parts, state).await?;
        visitor.must(Role::Reviewer)?;
        Ok(Self(person(&visitor)))
    }
}
