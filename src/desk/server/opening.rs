//! What the desk is made of when it is opened, and why it cannot be.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use tokio_util::sync::CancellationToken;

use super::middleware::{self, Shared};
use super::{DeskParts, Routes};
use crate::config::{Config, DeskAuth};
use crate::desk::NAME;
use crate::desk::access::Users;
use crate::desk::access::authenticator::{Asserted, Authenticator};
use crate::desk::access::credential::DeskKey;
use crate::desk::access::keys::KeyRing;
use crate::desk::access::origin::Origin;
use crate::desk::card::UNAVAILABLE;
use crate::desk::journal::EventName;
use crate::desk::limits::{Bounds, RateLimits};
use crate::desk::login::{self, LoginParts};
use crate::desk::store::credentials::Credentials;
use crate::desk::stream::{Followers, Streams};
use crate::desk::upkeep;
use crate::journal;
use crate::kernel::tasks::Tasks;
use crate::ops::incident::IncidentKey;
use crate::scrub::scrub;
use crate::web::listener::{Closed, Surface};
use crate::web::name::Name;

/// Connections beside the streams: those of browsers and programs that ask.
const ASKING: usize = 512;

/// The desk as its listener opens it.
pub(super) struct Opening {
    parts: DeskParts,
    /// The configuration of the start: address, origin and login are not changed by a reload.
    config: Arc<Config>,
    routes: Routes,
}

/// What the desk does not answer without.
pub(super) struct Ready {
    authenticator: Arc<Authenticator>,
    origin: Origin,
}

impl Opening {
    pub(super) fn new(parts: DeskParts, routes: Routes) -> Self {
        let config = Arc::clone(&parts.config.borrow());
        Self { parts, config, routes }
    }
}

impl Surface for Opening {
    const NAME: Name = NAME;
    const UNAVAILABLE: IncidentKey = UNAVAILABLE;
    type Ready = Ready;

    fn address(&self) -> Option<String> {
        self.config.desk.listen.clone()
    }

    fn connections(&self) -> usize {
        let Bounds { followers, streams, .. } = self.parts.bounds;
        followers + streams + ASKING
    }

    async fn ready(&self) -> Result<Ready, Closed> {
        let authenticator = Arc::new(authenticator(&self.parts, &self.config)?);
        let origin = Origin::new(&self.config.desk.origin);
        let origin = origin.ok_or_else(|| wrong("desk.origin is no origin".to_owned()))?;
        Ok(Ready { authenticator, origin })
    }

    fn router(&self, ready: Ready, at: SocketAddr, beside: &mut Tasks, stop: &CancellationToken) -> Router {
        let Ready { authenticator, origin } = ready;
        let (pool, clock) = (self.parts.pool.clone(), Arc::clone(&self.parts.clock));
        beside.spawn("the desk's upkeep", |stop| upkeep::run(pool, clock, stop));
        if let Some(asserted) = &authenticator.asserted {
            let keys = Arc::clone(&asserted.keys);
            beside.spawn("the proxy's keys", |stop| keys.keep_fresh(stop));
        }
        let router = router(&self.parts, origin, &authenticator, self.routes.clone(), stop);
        journal!(
            info,
            EventName::DeskListening,
            listen = %at,
            "the desk answers at {} as {}",
            at,
            self.config.desk.origin
        );
        router
    }

    fn closed(&self, Closed { what, advice, .. }: &Closed) {
        journal!(error, EventName::DeskUnavailable, "the desk is not open: {what}; {advice}");
    }

    fn ended(&self) {
        self.parts.pool.close();
    }
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

fn wrong(what: String) -> Closed {
    Closed {
        what,
        command: "sudo maple-router check",
        advice: "correct [desk] in the configuration and restart".to_owned(),
    }
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
    let followers = Followers(Streams::new(bounds.followers, bounds.follow, stop.clone(), Arc::clone(clock)));
    let shared = Shared::new(
        origin,
        Arc::clone(authenticator),
        limits,
        (streams, followers),
        *bounds,
        (templates.problem, Arc::clone(clock)),
    );
    let open = routes.open.merge(login::open(Arc::clone(&login)));
    let closed = routes.closed.merge(login::closed(login));
    middleware::around(open, closed, Arc::new(shared))
}
