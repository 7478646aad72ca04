//! Login by a link, and logout.
//!
//! `GET /login/TOKEN` shows one button and asks nobody: scanners and previews that follow links spend nothing. `POST` spends it,
//! once, and makes a session under a new name; the session that the browser had before ends in the same transaction. If we die
//! before its commit the link still counts.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use url::Url;

use super::access::authenticator::Authenticator;
use super::access::credential::{Credential, Kind};
use super::access::presented::{COOKIE, Presented, session};
use super::access::{By, Visitor, life};
use super::input::{Form, Path, Query};
use super::journal::EventName;
use super::limits::RateLimits;
use super::metrics::{LOGINS, Login};
use super::problem::{self, Problem};
use super::templates::{LoginPage, LoginView};
use crate::journal;
use crate::ops::rng::Rng;

/// The parts of the login.
pub(super) struct LoginParts {
    pub(super) authenticator: Arc<Authenticator>,
    pub(super) limits: Arc<RateLimits>,
    pub(super) rng: Arc<Rng>,
    pub(super) page: LoginPage,
}

/// The path of a link's page, before its token.
pub const PATH: &str = "/login/";

/// The routes that nobody has to be logged in for. There are none where a proxy says who somebody is.
pub(super) fn open(parts: Arc<LoginParts>) -> Router {
    if parts.authenticator.asserted.is_some() {
        return Router::new();
    }
    Router::new().route("/login/{token}", get(show).post(spend)).with_state(parts)
}

/// The route behind the login.
pub(super) fn closed(parts: Arc<LoginParts>) -> Router {
    Router::new().route("/logout", post(leave)).with_state(parts)
}

/// Where to go afterwards.
#[derive(Debug, Default, Deserialize)]
struct Wanted {
    #[serde(default)]
    to: Option<String>,
}

async fn show(
    State(parts): State<Arc<LoginParts>>,
    Path(token): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Result<Html<String>, Problem> {
    let link = Credential::presented(Kind::Link, &token).ok_or_else(link_is_over)?;
    let view = LoginView { action: format!("{PATH}{}", link.expose()), to: own_path(wanted.to.as_deref()) };
    Ok(Html((parts.page)(&view)))
}

async fn spend(
    State(parts): State<Arc<LoginParts>>,
    Path(token): Path<String>,
    headers: HeaderMap,
    Form(wanted): Form<Wanted>,
) -> Result<Response, Problem> {
    let LoginParts { authenticator, limits, rng, .. } = &*parts;
    limits.login().inspect_err(|_| LOGINS.add(Login::Limited, 1))?;
    let to = own_path(wanted.to.as_deref());
    let Some(link) = Credential::presented(Kind::Link, &token) else { return Err(refused("no link")) };
    let (fresh, link) = (Credential::new(Kind::Session, rng), authenticator.key.digest(&link));
    let old = match session(&headers) {
        Presented::Credential(old) => Some(authenticator.key.digest(&old)),
        Presented::Assertion(_) | Presented::Unusable | Presented::Nothing => None,
    };
    let session_of = |user: &str| {
        authenticator.users.named(user).map(|_| (authenticator.key.digest(&fresh), life::SESSION))
    };
    match authenticator.credentials.log_in(&link, old.as_ref(), session_of).await? {
        Some(user) if authenticator.users.named(&user).is_some() => {
            LOGINS.add(Login::LoggedIn, 1);
            journal!(info, EventName::DeskLogin, user, "{user} has logged in to the desk");
            Ok(gone(&to, &cookie(fresh.expose(), life::SESSION.as_secs()))?)
        }
        Some(user) => {
            LOGINS.add(Login::UnknownUser, 1);
            journal!(
                warn,
                EventName::DeskLoginRefused,
                user,
                "the link of {user} is spent, and {user} is no user of the desk any more"
            );
            Err(Problem::unknown_user())
        }
        None => again(authenticator, &link, &headers, &to).await,
    }
}

/// A link that counts no more: whoever pressed its button in a second tab is logged in already.
async fn again(
    authenticator: &Authenticator,
    link: &super::access::credential::KeyedDigest,
    headers: &HeaderMap,
    to: &str,
) -> Result<Response, Problem> {
    let spent = authenticator.credentials.find(Kind::Link, link, |_| false).await?;
    if let (Some(spent), Some(user)) = (spent, authenticator.session_of(headers).await?)
        && spent.user == user
    {
        return see(to);
    }
    Err(refused("it was spent before, has expired, or never was one"))
}

async fn leave(
    State(parts): State<Arc<LoginParts>>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match (visitor.by, session(&headers)) {
        (By::Session, Presented::Credential(credential)) => {
            let authenticator = &parts.authenticator;
            authenticator.credentials.end(&authenticator.key.digest(&credential)).await?;
            let user = visitor.user;
            journal!(info, EventName::DeskLogout, user, "{user} has logged out of the desk");
            gone("/", &cookie("", 0))
        }
        (By::Assertion, _) => {
            Err(Problem::bad_request("The proxy before the desk has logged you in: log out there."))
        }
        (By::Session | By::Token, _) => Err(Problem::bad_request("Only a browser's session is logged out.")),
    }
}

fn refused(why: &'static str) -> Problem {
    LOGINS.add(Login::RefusedLink, 1);
    journal!(warn, EventName::DeskLoginRefused, "a login link was refused: {why}");
    link_is_over()
}

fn link_is_over() -> Problem {
    Problem::new(
        problem::Kind::Unauthenticated,
        "This login link has been used, has expired, or never was one. A link counts once, for ten minutes.",
        "On the desk's host: sudo maple-router desk login NAME prints another.",
    )
}

fn cookie(value: &str, seconds: u64) -> String {
    format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax")
}

fn see(to: &str) -> Result<Response, Problem> {
    let to = HeaderValue::from_str(to).map_err(|_| Problem::internal())?;
    Ok((StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response())
}

fn gone(to: &str, cookie: &str) -> Result<Response, Problem> {
    let mut response = see(to)?;
    let cookie = HeaderValue::from_str(cookie).map_err(|_| Problem::internal())?;
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// The wanted page, if it is one of our own, else the first: a link in a mail must not lead elsewhere by way of us.
#[must_use]
pub fn own_path(wanted: Option<&str>) -> String {
    // Whatever a browser makes of it (`//`, `/\`, tabs inside), it is resolved as a browser does, and must stay here.
    const BASE: &str = "http://desk.invalid";
    let resolve = |text: &str| {
        let base = Url::parse(BASE).ok()?;
        let url =
            base.join(text).ok().filter(|url| text.starts_with('/') && url.origin() == base.origin())?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", url.path());
        // `/.//elsewhere` is resolved to `//elsewhere`, which another browser would follow.
        let again = base.join(&path).ok()?;
        (again.origin() == base.origin() && !path.starts_with("//")).then_some(path)
    };
    wanted.and_then(resolve).unwrap_or_else(|| "/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_led_to() {
        for own in ["/", "/queue", "/queue/1?state=Pending&order=oldest", "/a%2fb"] {
            assert_eq!(own_path(Some(own)), own);
        }
        for other in [
            "",
            "queue",
            "//evil.example.org",
            "//evil.example.org/x",
            "/\\evil.example.org",
            "\\\\evil.example.org",
            "/\t/evil.example.org",
            "/\n/evil.example.org",
            "/.//evil.example.org",
            "/x/..//evil.example.org",
            "https://evil.example.org",
            "http:evil.example.org",
            "javascript:alert(1)",
            " //evil.example.org",
        ] {
            assert_eq!(own_path(Some(other)), "/", "{other:?}");
        }
        assert_eq!(own_path(None), "/");
        assert_eq!(own_path(Some("/a b\"<script>")), "/a%20b%22%3Cscript%3E");
    }
}
