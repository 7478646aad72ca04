//! Who asks: the backend by its key, or a client by its session's token. A refusal says nothing of which sessions there are.

use axum::extract::{FromRequestParts, Path};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use uuid::Uuid;

use super::ApiState;
use crate::uploads::commands::{By, THE_BACKEND, THE_CLIENT};
use crate::uploads::digest::presented;
use crate::uploads::problem::Problem;
use crate::uploads::store::Seen;

/// The backend.
pub(super) struct Backend;

/// A session, and whoever may see it.
pub(super) struct Session {
    pub(super) seen: Seen,
    pub(super) by: By<'static>,
}

/// The credential of a request.
fn bearer(parts: &Parts) -> Result<&str, Problem> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(Problem::unauthenticated()) };
    let (scheme, credential) =
        value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(Problem::unauthenticated)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(credential.trim())
    } else {
        Err(Problem::unauthenticated())
    }
}

impl FromRequestParts<ApiState> for Backend {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Problem> {
        let is_key = state.commands.key.is(bearer(parts)?);
        if is_key { Ok(Self) } else { Err(Problem::unauthenticated()) }
    }
}

impl FromRequestParts<ApiState> for Session {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Problem> {
        let credential = bearer(parts)?.to_owned();
        let id = Path::<String>::from_request_parts(parts, state).await;
        // What can be no id is nobody's.
        let id = id.ok().and_then(|Path(text)| Uuid::try_parse(&text).ok());
        if state.commands.key.is(&credential) {
            let seen = state.commands.of_id(id.ok_or_else(Problem::not_found)?).await?;
            return Ok(Self { seen, by: THE_BACKEND });
        }
        let token = presented(&credential).ok_or_else(Problem::unauthenticated)?;
        let seen = state.commands.of_token(id.ok_or_else(Problem::not_found)?, &token).await?;
        Ok(Self { seen, by: THE_CLIENT })
    }
}
