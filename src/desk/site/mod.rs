//! The pages of the desk as handlers: each takes what the URL or the form says, asks queries, the grey queue and forms, and fills a
//! view of [`pages`](super::pages). A decision goes the same way as the API's (`decide`).
//!
//! Recipients, mail and payloads are shown to reviewers and above, when they ask, and never before the access log says so. Nothing
//! is kept here but who looks at which entry (`looking`), which nobody relies on. If we die, nothing is owed.

mod actions;
mod bulk;
mod decision;
mod doors;
mod entry;
pub mod flash;
pub mod forms;
mod grade;
mod letter;
mod lifecycles;
mod live;
mod looking;
mod mail;
mod moments;
mod queue;
mod recipients;
mod report;
mod run;
mod search;
mod showing;
mod status;
mod story;
mod words;
mod work;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::Html;
use axum::routing::{get, post};
use jiff::Timestamp;
use tokio::sync::watch;

use self::looking::Looking;
use self::report::Latest;
use super::access::{Users, Visitor};
use super::api::{self, ApiState};
use super::confined::confined;
use super::grades::Grades;
use super::live::Live;
use super::pages::frame::{Frame, Viewer};
use super::problem::Problem;
use super::server::Routes;
use crate::config::Config;
use crate::db::Pool;
use crate::forms::commands::Versions;
use crate::grey_queue::commands::Commands;
use crate::kernel::Card;
use crate::ops::rng::Rng;
use crate::ports::Clock;
use crate::queries::render::Preparer;
use crate::queries::{QueryError, Reader};
pub use doors::templates;

/// Makes the commands to versions of forms by a configuration, over the desk's own connections; or says why there are none.
pub type MakeVersions = Arc<dyn Fn(&Config) -> Result<Versions, String> + Send + Sync>;

/// What the pages are made from.
#[derive(Clone)]
pub struct SiteParts {
    /// The configuration in force.
    pub config: watch::Receiver<Arc<Config>>,
    /// The desk's own connections.
    pub pool: Pool,
    /// Entries and decisions, over the same connections.
    pub commands: Commands,
    /// The maker of mails, which signs their links; absent: no mail is shown.
    pub preparer: Option<Arc<Preparer>>,
    /// The maker of the commands to versions of forms, asked anew each time: domains and policy follow the configuration.
    pub versions: MakeVersions,
    /// The cards of the program: lifecycles, and which breakers there are.
    pub rooms: &'static [&'static Card],
    /// The clock of who looks at what.
    pub clock: Arc<dyn Clock>,
    /// The origin of idempotency keys.
    pub rng: Arc<Rng>,
}

impl std::fmt::Debug for SiteParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SiteParts").finish_non_exhaustive()
    }
}

/// What every handler has.
struct Site {
    parts: SiteParts,
    users: Users,
    looking: Looking,
    latest: Latest,
    live: Live,
    grades: Grades,
}

type Shared = axum::extract::State<Arc<Site>>;

/// The routes of the pages, and the API's beside them: both tell of the same changes.
#[must_use]
pub fn routes(parts: SiteParts) -> Routes {
    let doors = doors::routes(parts.config.clone());
    let users = Users::new(parts.config.clone());
    let looking = Looking::new(Arc::clone(&parts.clock));
    let api = ApiState::new(parts.commands.clone(), parts.config.clone(), Arc::clone(&parts.rng));
    let entries = parts.commands.store.clone();
    let (live, grades) = (api.live.clone(), api.grades.clone());
    let site = Arc::new(Site { parts, users, looking, latest: Latest::default(), live, grades });
    let closed = Router::new()
        .route("/", get(queue::home))
        .route("/queue", get(queue::list))
        .route("/queue/rows", get(queue::rows))
        .route("/queue/bulk", post(bulk::apply))
        .route("/next", get(queue::next))
        .route("/entries/{id}", get(entry::show))
        .route("/entries/{id}/review", post(grade::review))
        .route("/entries/{id}/{command}", post(decision::decide))
        .route("/entries/{id}/mail/{number}", get(mail::of_entry))
        .route("/submissions/{id}/mail/{number}", get(mail::of_submission))
        .route("/submissions", get(search::submissions))
        .route("/submissions/{id}", get(story::submission))
        .route("/forms", get(forms::list::all))
        .route("/forms/{form}", get(forms::form::show))
        .route("/forms/{form}/rollback", post(forms::moving::roll_back))
        .route("/forms/{form}/{number}", get(forms::version::show))
        .route("/forms/{form}/{number}/promote", post(forms::moving::promote))
        .route("/status", get(status::show))
        .route("/lifecycles", get(lifecycles::all))
        .route("/lifecycles/{name}", get(lifecycles::one))
        .route("/api", get(lifecycles::api))
        .route("/live", get(live::stream))
        .with_state(site);
    Routes { open: doors, closed: confined(closed, entries).merge(api::routes(api)) }
}

impl Site {
    fn commands(&self) -> &Commands {
        &self.parts.commands
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.parts.config.borrow())
    }

    /// The sources of queries, with the configuration as it is now.
    fn reader(&self) -> Result<Reader, Problem> {
        let config = Config::clone(&self.config());
        Ok(Reader::new(config, self.parts.pool.clone(), self.parts.rooms)?)
    }

    fn frame(visitor: &Visitor, now: Timestamp) -> Frame {
        let viewer = Viewer { name: visitor.user.clone(), role: visitor.role.label().to_owned() };
        // Changes are told of every queue.
        let confined = visitor.only_queue().is_some();
        Frame { live: !confined, confined, ..Frame::new(now, Some(viewer)) }
    }

    /// A fresh idempotency key for a form.
    fn key(&self) -> String {
        self.parts.rng.uuid().to_string()
    }
}

/// The id in a path; what is none is nobody's.
fn entry_id(text: &str) -> Result<uuid::Uuid, Problem> {
    text.parse().map_err(|_| Problem::not_found("entry of this id"))
}

/// The text of a page.
fn written(page: &impl Template) -> Result<String, Problem> {
    page.render().map_err(|error| {
        tracing::error!("a page of the desk cannot be written: {error}");
        Problem::internal()
    })
}

fn html(page: &impl Template) -> Result<Html<String>, Problem> {
    written(page).map(Html)
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Database(error) => error.into(),
            QueryError::Pauses(error) => {
                tracing::error!("the desk cannot read the pauses: {error}");
                Self::internal()
            }
        }
    }
}
