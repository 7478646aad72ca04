//! Line `desk` of `check`: whether the desk can be opened, and whether it is.
//!
//! Reads the secret's file and the proxy's keys, connects as the desk's own role, and asks the address once. Never shows a secret, only where it is.

use std::sync::Arc;
use std::time::Duration;

use super::access::assertion::ProxyKeys;
use super::access::credential::DeskKey;
use super::access::keys::KeyRing;
use super::store::role::may_decide;
use crate::config::{Config, Database, Desk, DeskAuth, ScreeningMode};
use crate::db::{Pool, PoolOptions};
use crate::ops::clock::SystemClock;
use crate::ports::CheckLine;
use crate::scrub::scrub;
use crate::web::problem::CONTENT_TYPE;

const NAME: &str = "desk";
/// Longest wait for the desk itself.
const PATIENCE: Duration = Duration::from_secs(3);
const ROLE: &str = "set desk.database_url to that of role maple_desk, and give it a password (rb-014, \"The desk's identity\")";
const INIT: &str = "sudo maple-router desk init, then restart the service";

/// Looks.
pub(super) async fn line(config: &Config) -> CheckLine {
    let desk = &config.desk;
    let Some(listen) = desk.listen.as_deref() else {
        return CheckLine::ok(NAME, "off: desk.listen is not set");
    };
    let secret = match config.desk_secret() {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            return CheckLine::fail(NAME, "it has no secret (desk-secret), and is not opened without", INIT);
        }
        Err(error) => return CheckLine::fail(NAME, error.to_string(), INIT),
    };
    let path = secret.path.display();
    if let Err(why) = DeskKey::new(secret.secret.expose()) {
        return CheckLine::fail(NAME, format!("{path}: {why}"), INIT);
    }
    if secret.world_readable {
        let detail = format!("its secret is read from {path}, which every user of this machine may read");
        return CheckLine::warn(
            NAME,
            detail,
            format!("chmod 0600 {path}, then sudo maple-router desk init --rotate"),
        );
    }
    if let Err(why) = keys(desk).await {
        let remedy = "compare keys_url or keys_file, and algorithm, of [desk.assertion] with the proxy's documentation";
        return CheckLine::fail(NAME, format!("the proxy's keys cannot be used: {why}"), remedy);
    }
    if desk.users.is_empty() {
        return CheckLine::warn(
            NAME,
            "nobody may use it",
            "add a section [desk.users.NAME] for each person, and reload",
        );
    }
    if let Some((detail, remedy)) = role_trouble(config).await {
        return CheckLine::warn(NAME, detail, remedy);
    }
    let users = format!("{} users, secret read from {path}", desk.users.len());
    match ask(desk, listen).await {
        Ok(()) => CheckLine::ok(NAME, format!("answers at {listen} as {}; {users}", desk.origin)),
        Err(why) => CheckLine::warn(
            NAME,
            format!("does not answer at {listen}: {why}; {users}"),
            "is the daemon running, and was it restarted since [desk] was changed? Its journal says desk_unavailable, and why",
        ),
    }
}

/// Whatever keeps the desk from deciding about screening, and what to do about it; `None`: nothing does.
async fn role_trouble(config: &Config) -> Option<(String, &'static str)> {
    let screens = config.screening.mode == ScreeningMode::On;
    let settings = Database { max_connections: 1, ..config.database.clone() };
    let (own, password) = match config.desk_database(settings) {
        Ok(Some(own)) => own,
        Ok(None) if screens => {
            return Some((
                "it comes as the daemon's role, which may not decide about screening".to_owned(),
                ROLE,
            ));
        }
        Ok(None) => return None,
        Err(error) => return Some((error.to_string(), ROLE)),
    };
    let mut options = PoolOptions::new(Arc::new(SystemClock));
    "maple-router check".clone_into(&mut options.application_name);
    options.password = password.map(|password| password.expose().to_owned());
    let may_decide = async { may_decide(&Pool::connect(&own, options).await?).await };
    match may_decide.await {
        Ok(Some(false)) if screens => {
            Some(("the role of desk.database_url may not decide about screening".to_owned(), ROLE))
        }
        Ok(_) => None,
        Err(error) => Some((format!("desk.database_url: {}", scrub(&error.to_string())), ROLE)),
    }
}

async fn keys(desk: &Desk) -> Result<(), String> {
    let (DeskAuth::Assertion, Some(rules)) = (desk.auth, &desk.assertion) else { return Ok(()) };
    let ring = KeyRing::new(rules, Arc::new(SystemClock))?;
    ProxyKeys::of(&ring.read().await?, rules.algorithm).map(drop)
}

/// Asks for the API without a login: only a desk answers with a problem of its own.
async fn ask(desk: &Desk, listen: &str) -> Result<(), String> {
    let said =
        |error: reqwest::Error| if error.is_timeout() { "no answer in time" } else { "nobody listens there" };
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .map_err(|error| said(error).to_owned())?;
    let host = url::Url::parse(&desk.origin).ok();
    let host = host
        .as_ref()
        .map(|url| &url[url::Position::BeforeHost..url::Position::AfterPort])
        .unwrap_or_default();
    let asked = client.get(format!("http://{listen}/logout")).header("host", host).send().await;
    let answer = asked.map_err(|error| said(error).to_owned())?;
    let kind = answer.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind == CONTENT_TYPE && answer.status() != 421 {
        return Ok(());
    }
    Err(if answer.status() == 421 {
        "a desk of another origin answers there".to_owned()
    } else {
        "somebody else answers there".to_owned()
    })
}
