//! Finds out who asks: presented proof → row or signature → the user as the configuration has them now.
//!
//! Fails closed: what is not understood, not found or not reachable is nobody. Nothing is kept between two requests but the
//! proxy's keys, so a session that was ended, or a user who was removed, counts no more at the next.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};

use super::assertion::{self, Disbelief};
use super::credential::{Credential, DeskKey, Kind};
use super::keys::KeyRing;
use super::life;
use super::presented::{Presented, presented, session};
use super::user::{User, Users};
use super::visitor::{By, Visitor};
use crate::config::Assertion;
use crate::desk::metrics::{LOGINS, Login};
use crate::desk::problem::Problem;
use crate::desk::store::credentials::Credentials;

/// The rules by which a signed header is believed.
#[derive(Debug)]
pub struct Asserted {
    /// The header.
    pub header: HeaderName,
    /// `[desk.assertion]`
    pub rules: Assertion,
    /// The proxy's keys.
    pub keys: Arc<KeyRing>,
}

/// The login of the desk.
#[derive(Debug)]
pub struct Authenticator {
    /// The key of all digests.
    pub key: DeskKey,
    /// The rows.
    pub credentials: Credentials,
    /// The people.
    pub users: Users,
    /// Present where a proxy signs who somebody is: then no cookie counts.
    pub asserted: Option<Asserted>,
}

impl Authenticator {
    /// Who asks for `path`. `wakes`: the request is a person's, and keeps a session from resting.
    ///
    /// # Errors
    /// [`Problem`] 401: nobody; 403: no user; 503: it cannot be found out now.
    pub async fn visitor(&self, path: &str, headers: &HeaderMap, wakes: bool) -> Result<Visitor, Problem> {
        match presented(path, headers, self.asserted.as_ref().map(|asserted| &asserted.header)) {
            Presented::Credential(credential) => self.by_row(&credential, wakes).await,
            Presented::Assertion(text) => match &self.asserted {
                Some(asserted) => self.by_assertion(&text, asserted).await,
                None => Err(Problem::not_logged_in()),
            },
            Presented::Unusable => Err(Problem::ended()),
            Presented::Nothing => Err(Problem::not_logged_in()),
        }
    }

    /// The user of the session that a browser brings beside something else; `None` where there is none that counts.
    ///
    /// # Errors
    /// [`Problem`] 503.
    pub async fn session_of(&self, headers: &HeaderMap) -> Result<Option<String>, Problem> {
        let Presented::Credential(credential) = session(headers) else { return Ok(None) };
        Ok(self.by_row(&credential, false).await.ok().map(|visitor| visitor.user))
    }

    /// Whether a request for `path` brings any proof of a person.
    #[must_use]
    pub fn is_persons(&self, path: &str, headers: &HeaderMap) -> bool {
        presented(path, headers, self.asserted.as_ref().map(|asserted| &asserted.header))
            != Presented::Nothing
    }

    async fn by_row(&self, credential: &Credential, wakes: bool) -> Result<Visitor, Problem> {
        let (kind, digest) = (credential.kind(), self.key.digest(credential));
        let found = self
            .credentials
            .find(kind, &digest, |found| {
                wakes && found.times.is_alive(kind, found.now) && found.times.is_to_be_touched(found.now)
            })
            .await?;
        let Some(found) = found.filter(|found| found.times.is_alive(kind, found.now)) else {
            if kind == Kind::Token {
                LOGINS.add(Login::RefusedToken, 1);
            }
            return Err(Problem::ended());
        };
        let User { name, role, .. } = self.users.named(&found.user).ok_or_else(unknown)?;
        let by = match kind {
            Kind::Token => By::Token,
            Kind::Session | Kind::Link => By::Session,
        };
        Ok(Visitor { user: name, role: life::role(found.role_cap, role), by })
    }

    async fn by_assertion(&self, text: &str, asserted: &Asserted) -> Result<Visitor, Problem> {
        let Asserted { rules, keys, .. } = asserted;
        let address = match assertion::named_key(text, rules.algorithm) {
            Ok(kid) => {
                let keys = keys.looked_for(&kid).await;
                if keys.is_empty() {
                    return Err(no_keys());
                }
                assertion::believed(text, rules, &keys)
            }
            Err(disbelief) => Err(disbelief),
        };
        let address = address.map_err(disbelieved)?;
        let User { name, role, .. } = self.users.with_email(&address).ok_or_else(unknown)?;
        Ok(Visitor { user: name, role, by: By::Assertion })
    }
}

fn unknown() -> Problem {
    LOGINS.add(Login::UnknownUser, 1);
    Problem::unknown_user()
}

fn disbelieved(disbelief: Disbelief) -> Problem {
    LOGINS.add(Login::RefusedAssertion, 1);
    tracing::warn!(reason = %disbelief, "an assertion of who somebody is was not believed");
    let about = match disbelief {
        Disbelief::Expired => "The proxy's assertion has expired.",
        Disbelief::Premature => {
            "The proxy's assertion is not valid yet: compare the clocks of proxy and host."
        }
        Disbelief::Nobody => "The proxy's assertion names no verified address.",
        Disbelief::Malformed
        | Disbelief::Algorithm
        | Disbelief::UnknownKey
        | Disbelief::Signature
        | Disbelief::Issuer
        | Disbelief::Audience
        | Disbelief::Critical => "The proxy's assertion is not one that this desk believes.",
    };
    Problem::new(
        crate::desk::problem::Kind::Unauthenticated,
        about,
        "Log in at the proxy again; the administrator of the host finds the reason in its journal and compares [desk.assertion].",
    )
}

fn no_keys() -> Problem {
    Problem::new(
        crate::desk::problem::Kind::Busy,
        "The proxy's keys are not known yet, so nobody's assertion can be verified.",
        "Try again in a minute; the administrator of the host compares keys_url or keys_file of [desk.assertion].",
    )
    .retry_after(60)
}
