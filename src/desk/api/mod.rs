//! The API `/api/grey-queue`, `/api/screening` and `/api/assessments`, and its description `/api/openapi.json`, which is generated from the handlers.
//!
//! Reads show what `queries::review` composes, decisions go through `decide` and
//! `bulk`: nothing is decided here. If we die, nothing is owed.

mod assessments;
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
use tokio::sync::watch;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::access::Visitor;
use super::confined::confined;
use super::decide::person;
use super::follow::{self, Follow, Listen};
use super::grades::Grades;
use super::live::Live;
use super::problem::Problem;
use crate::config::{Config, Pooling};
use crate::db::PoolOptions;
use crate::grey_queue::commands::Commands;
use crate::grey_queue::decide::Person;
use crate::kernel::jobs::listener::Listener;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::screening::store::ScreeningStore;

pub(super) use assessments::refused;

/// What the API needs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ApiState {
    /// Commands over the desk's own connections.
    pub commands: Arc<Commands>,
    /// The runs of screening, over the same connections.
    pub screening: ScreeningStore,
    /// The changes of the same queue.
    pub live: Live,
    /// What people grade, over the same connections.
    pub(crate) grades: Grades,
    /// What learners follow.
    follow: Follow,
    /// The origin of tickets.
    rng: Arc<Rng>,
}

impl ApiState {
    /// The API of `commands`, whose store has the desk's own connections.
    #[must_use]
    pub fn new(commands: Commands, config: watch::Receiver<Arc<Config>>, rng: Arc<Rng>) -> Self {
        let clock = Arc::clone(&commands.clock);
        let commands = Arc::new(commands);
        let grades = Grades::new(Arc::clone(&commands), config.clone());
        let listen: Listen = Arc::new({
            let clock = Arc::clone(&clock);
            move || listener(&config.borrow(), Arc::clone(&clock))
        });
        let follow = Follow::new(grades.store.clone(), clock, listen);
        let live = Live::new(commands.store.clone(), Arc::clone(&commands.clock));
        let screening = ScreeningStore::new(commands.store.pool().clone(), "desk");
        Self { commands, screening, live, grades, follow, rng }
    }
}

/// The listener to what moves, as the daemon's role; silent where a proxy carries no notifications, or the password cannot be read.
fn listener(config: &Config, clock: Arc<dyn Clock>) -> Listener {
    let database = &config.database;
    if database.said_pooling() == Some(Pooling::Transaction) && database.listen_url.is_none() {
        return Listener::silent();
    }
    let Ok(password) = config.database_password() else { return Listener::silent() };
    let mut options = PoolOptions::new(clock);
    "maple-router-desk".clone_into(&mut options.application_name);
    options.password = password.map(|found| found.secret.expose().to_owned());
    Listener::start(follow::CHANNEL, database.clone(), options)
}

/// The routes, behind the login.
pub fn routes(state: ApiState) -> Router {
    let entries = state.commands.store.clone();
    let (router, description) = paths().with_state(state).split_for_parts();
    let text: Arc<str> = document::text(&description).into();
    confined(router.layer(Extension(text)), entries)
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
        .routes(routes!(assessments::show))
        .routes(routes!(assessments::review))
        .routes(routes!(assessments::ticket))
        .routes(routes!(document::openapi))
        .layer(from_fn(no_query));
    let lists = OpenApiRouter::with_openapi(document::head());
    lists
        .routes(routes!(list::list))
        .routes(routes!(screening::list))
        .routes(routes!(assessments::events))
        .merge(plain)
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

/// Somebody who may decide: a viewer is refused before anything else is looked at. That an instructor decides about one queue alone, and
/// about one entry at a time, is seen to by the routes (`confined`), and by the decision itself.
struct Decider(Person);

impl<S: Send + Sync> FromRequestParts<S> for Decider {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let visitor = Visitor::from_request_parts(parts, state).await?;
        visitor.must_decide()?;
        Ok(Self(person(&visitor)))
    }
}
