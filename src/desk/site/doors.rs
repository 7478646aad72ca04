//! What is shown to whoever is not logged in: files, how to get a login, and problems. Asks no database, so the time is the
//! clock's.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::get;
use jiff::Timestamp;
use tokio::sync::watch;

use super::html;
use crate::config::{Config, DeskAuth};
use crate::desk::login::LOGGED_OUT;
use crate::desk::pages::assets;
use crate::desk::pages::frame::{Frame, Viewer};
use crate::desk::pages::login::{HowToPage, LinkPage, LoggedOutPage, ProblemPage, Unsent};
use crate::desk::problem::{Kind, Problem};
use crate::desk::templates::{LoginView, ProblemView, Sent, Templates};
use crate::ops::clock::since_epoch;
use crate::web::problem::ProblemKind as _;

/// A file whose path has its digest never changes.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Fields that people type, in the forms of entries, of the queue and of forms' versions.
const TYPED: [&str; 2] = ["reason", "escalation_reason"];

/// The pages of the desk's ground, for people who log in like this.
#[must_use]
pub fn templates(auth: DeskAuth) -> Templates {
    let problem = match auth {
        DeskAuth::Link => problem_of_links,
        DeskAuth::Assertion => problem_behind_a_proxy,
    };
    Templates { problem, login }
}

/// The routes without a login.
pub(super) fn routes(config: watch::Receiver<Arc<Config>>) -> Router {
    Router::new()
        .route("/assets/{file}", get(asset))
        .route("/favicon.svg", get(icon))
        .route("/login", get(how_to))
        .route(LOGGED_OUT, get(logged_out))
        .with_state(config)
}

async fn asset(Path(file): Path<String>) -> Result<Response, Problem> {
    let found = assets::find(&format!("/assets/{file}"));
    let (media_type, content) = found.ok_or_else(|| Problem::not_found("such file"))?;
    Ok((
        [(header::CONTENT_TYPE, HeaderValue::from_static(media_type)), (header::CACHE_CONTROL, FOR_EVER)],
        content,
    )
        .into_response())
}

async fn icon() -> Result<Response, Problem> {
    let (media_type, content) = assets::find(assets::icon()).ok_or_else(Problem::internal)?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))], content).into_response())
}

async fn how_to(State(config): State<watch::Receiver<Arc<Config>>>) -> Result<Html<String>, Problem> {
    let behind_proxy = config.borrow().desk.auth == DeskAuth::Assertion;
    html(&HowToPage { now: now(), host: host(), because: None, behind_proxy })
}

async fn logged_out() -> Result<Html<String>, Problem> {
    html(&LoggedOutPage { now: now() })
}

fn now() -> Timestamp {
    let seconds = i64::try_from(since_epoch().as_secs()).unwrap_or_default();
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn host() -> String {
    hostname::get()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "the desk's host".to_owned())
}

fn login(view: &LoginView) -> String {
    let page = LinkPage { now: now(), action: view.action.clone(), to: view.to.clone() };
    page.render().unwrap_or_default()
}

fn problem_of_links(view: &ProblemView<'_>) -> String {
    problem(view, false)
}

fn problem_behind_a_proxy(view: &ProblemView<'_>) -> String {
    problem(view, true)
}

fn problem(view: &ProblemView<'_>, behind_proxy: bool) -> String {
    let ProblemView { problem, visitor, path, sent } = *view;
    if problem.kind() == Kind::Unauthenticated {
        let because = (*problem != Problem::not_logged_in()).then(|| problem.detail().to_owned());
        let page = HowToPage { now: now(), host: host(), because, behind_proxy };
        return page.render().unwrap_or_default();
    }
    let viewer =
        visitor.map(|visitor| Viewer { name: visitor.user.clone(), role: visitor.role.label().to_owned() });
    let confined = visitor.is_some_and(|visitor| visitor.only_queue().is_some());
    let passes =
        matches!(problem.kind(), Kind::DatabaseAway | Kind::Busy | Kind::NotInstalled | Kind::RateLimited);
    let page = ProblemPage {
        frame: Frame { live: false, confined, ..Frame::new(now(), viewer) },
        status: problem.kind().status().as_u16(),
        title: problem.kind().title().to_owned(),
        detail: problem.detail().to_owned(),
        steps: vec![problem.remedy().to_owned()],
        again: path.filter(|_| passes).map(str::to_owned),
        unsent: sent.filter(|_| passes).map(unsent),
    };
    page.render().unwrap_or_default()
}

fn unsent(sent: &Sent) -> Unsent {
    let is_typed = |(name, value): &(String, String)| TYPED.contains(&name.as_str()) && !value.is_empty();
    let (typed, hidden) = sent.fields.iter().cloned().partition(is_typed);
    Unsent { action: sent.path.clone(), typed, hidden }
}
