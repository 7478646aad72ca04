//! Opens the desk, tells people where it cannot be opened, and tries again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::middleware::{self, Shared};
use super::{DeskParts, Routes, accept};
use crate::config::{Config, DeskAuth};
use crate::desk::access::Users;
use crate::desk::access::authenticator::{Asserted, Authenticator};
use crate::desk::access::credential::DeskKey;
use crate::desk::access::keys::KeyRing;
use crate::desk::access::origin::Origin;
use crate::desk::card::UNAVAILABLE;
use crate::desk::journal::EventName;
use crate::desk::limits::RateLimits;
use crate::desk::login::{self, LoginParts};
use crate::desk::store::credentials::Credentials;
use crate::desk::stream::Streams;
use crate::desk::upkeep;
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::Incident;
use crate::scrub::scrub;

/// Pause between two tries.
const AGAIN: Duration = Duration::from_secs(30);
/// Time for what runs beside the requests to end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Why the desk cannot be opened: what is wrong, and what to do.
struct Closed {
    what: String,
    command: &'static str,
    advice: String,
}

/// Keeps the desk open until `stop`.
pub(super) async fn keep_open(
    parts: DeskParts,
    routes: Routes,
    listening: watch::Sender<Option<SocketAddr>>,
    stop: CancellationToken,
) {
    let config = Arc::clone(&parts.config.borrow());
    let Some(listen) = config.desk.listen.clone() else { return };
    loop {
        match open(&parts, &config, &listen).await {
            Ok((listener, authenticator)) => {
                parts.incidents.resolve(UNAVAILABLE);
                run(&parts, &config, routes, (listener, authenticator), &listening, &stop).await;
                parts.pool.close();
                return;
            }
            Err(Closed { what, command, advice }) => {
                journal!(error, EventName::DeskUnavailable, "the desk is not open: {what}; {advice}");
                let what = format!("The review desk is not open: {what}. Routing goes on.");
                parts.incidents.raise(Incident::new(UNAVAILABLE, what, &[command]).advising(advice));
            }
        }
        if stop.run_until_cancelled(parts.clock.sleep(AGAIN)).await.is_none() {
            return;
        }
    }
}

async fn open(
    parts: &DeskParts,
    config: &Config,
    listen: &str,
) -> Result<(TcpListener, Arc<Authenticator>), Closed> {
    let authenticator = authenticator(parts, config)?;
    let listener = TcpListener::bind(listen).await.map_err(|error| Closed {
        what: format!("it cannot listen on {listen} ({error})"),
        command: "sudo ss -ltnp",
        advice: "stop what has the address, or change desk.listen and restart; it is tried again every half minute".to_owned(),
    })?;
    Ok((listener, Arc::new(authenticator)))
}

fn authenticator(parts: &DeskParts, config: &Config) -> Result<Authenticator, Closed> {
    let no_secret = |what: String| {
        Closed {
        what,
        command: "sudo maple-router desk init",
        advice: "`desk init` makes the secret, where none is; then restart the service, so that systemd hands it over".to_owned(),
    }
    };
    let secret = config
        .desk_secret()
        .map_err(|error| no_secret(error.to_string()))?
        .ok_or_else(|| no_secret("it has no secret to keep credentials with (desk-secret)".to_owned()))?;
    let key = DeskKey::new(secret.secret.expose()).map_err(no_secret)?;
    let wrong = |what: String| Closed {
        what,
        command: "sudo maple-router check",
        advice: "correct [desk] in the configuration and restart".to_owned(),
    };
    let asserted = match (config.desk.auth, &config.desk.assertion) {
        (DeskAuth::Link, _) => None,
        // The configuration has been validated; without the rules nobody would be believed.
        (DeskAuth::Assertion, None) => return Err(wrong("desk.assertion is not set".to_owned())),
        (DeskAuth::Assertion, Some(rules)) => Some(Asserted {
            header: rules
                .header
                .parse()
                .map_err(|_| wrong("desk.assertion.header is no header".to_owned()))?,
            keys: Arc::new(KeyRing::new(rules, Arc::clone(&parts.clock)).map_err(|why| wrong(scrub(&why)))?),
            rules: rules.clone(),
        }),
    };
    let (credentials, users) = (Credentials::new(parts.pool.clone()), Users::new(parts.config.clone()));
    Ok(Authenticator { key, credentials, users, asserted })
}

async fn run(
    parts: &DeskParts,
    config: &Config,
    routes: Routes,
    (listener, authenticator): (TcpListener, Arc<Authenticator>),
    listening: &watch::Sender<Option<SocketAddr>>,
    stop: &CancellationToken,
) {
    let mut beside = Tasks::new();
    let (pool, clock) = (parts.pool.clone(), Arc::clone(&parts.clock));
    beside.spawn("the desk's upkeep", |stop| upkeep::run(pool, clock, stop));
    if let Some(asserted) = &authenticator.asserted {
        let keys = Arc::clone(&asserted.keys);
        beside.spawn("the proxy's keys", |stop| keys.keep_fresh(stop));
    }
    let origin = Origin::new(&config.desk.origin);
    let address = listener.local_addr().ok();
    if let (Some(origin), Some(address)) = (origin, address) {
        let router = router(parts, origin, &authenticator, routes, stop);
        journal!(
            info,
            EventName::DeskListening,
            listen = %address,
            "the desk answers at {} as {}",
            address,
            config.desk.origin
        );
        listening.send_replace(Some(address));
        accept::serve(listener, router, stop).await;
    }
    beside.stop(LAST_WORDS).await;
}

fn router(
    parts: &DeskParts,
    origin: Origin,
    authenticator: &Arc<Authenticator>,
    routes: Routes,
    stop: &CancellationToken,
) -> Router {
    let DeskParts { clock, rng, templates, bounds, .. } = parts;
    let limits = Arc::new(RateLimits::new(bounds, Arc::clone(clock)));
    let login = Arc::new(LoginParts {
        authenticator: Arc::clone(authenticator),
        limits: Arc::clone(&limits),
        rng: Arc::clone(rng),
        page: templates.login,
    });
    let streams = Streams::new(bounds.streams, bounds.stream, stop.clone(), Arc::clone(clock));
    let shared = Shared::new(
        origin,
        Arc::clone(authenticator),
        limits,
        streams,
        *bounds,
        (templates.problem, Arc::clone(clock)),
    );
    let open = routes.open.merge(login::open(Arc::clone(&login)));
    let closed = routes.closed.merge(login::closed(login));
    middleware::around(open, closed, Arc::new(shared))
}
