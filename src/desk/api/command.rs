//! The decisions about one entry.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::content::{Content, Named, word};
use super::document::{Decides, DecisionHeaders, Path};
use super::entry::unknown;
use super::precondition::{Seen, etag, seen};
use super::{ApiState, Decider, EntryId, schema};
use crate::desk::decide::{Conflict, Decision, Outcome, Repeat, decide};
use crate::desk::problem::Problem;
use crate::grey_queue::decide::{Ask, Person, Verb};
use crate::kernel::subject::Remedy;
use crate::web::idempotency::Kept;

/// A decision's content.
trait Says {
    fn version(&self) -> Option<i64>;
    fn ask(self, verb: Verb) -> Result<Ask, Problem>;
}

/// Nothing but a reason, which is recorded where there is one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Plain {
    /// Why; recorded.
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// A reason.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reasoned {
    /// Why; recorded.
    #[schema(required = true, value_type = String, schema_with = schema::reason)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// To whom.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Assign {
    /// Who is to review it; absent: whoever asks. Others are assigned by an admin.
    assignee: Option<String>,
    /// Take it from whoever has it.
    take_over: Option<bool>,
    /// Why; recorded.
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// What the security team is asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Escalate {
    /// What the security team is asked; recorded.
    #[schema(required = true, value_type = String, schema_with = schema::reason)]
    escalation_reason: Option<String>,
    /// Recorded as the reason of nothing: `escalation_reason` is.
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// To whom it goes back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeEscalate {
    /// Who is to review it; absent: whoever did before.
    assignee: Option<String>,
    /// Why; recorded.
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// What resolves it: evidence, where nothing else is said.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolve {
    /// What is to bring the evidence.
    #[schema(value_type = Option<String>, schema_with = schema::remedy_or_none)]
    remedy: Option<String>,
    /// The delivery's key, for `force_delivery`.
    delivery: Option<String>,
    /// It is done, whatever the evidence: you are named for it.
    vouch: Option<bool>,
    /// Why; recorded.
    #[schema(required = true, value_type = String, schema_with = schema::reason)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

/// A remedy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Start {
    /// What is to mend it.
    #[schema(required = true, value_type = String, schema_with = schema::remedy)]
    remedy: Option<String>,
    /// The delivery's key, for `force_delivery`.
    delivery: Option<String>,
    /// Why; recorded.
    #[schema(required = true, value_type = String, schema_with = schema::reason)]
    reason: Option<String>,
    /// The version that was seen, unless If-Match says it.
    #[schema(schema_with = schema::version_or_none)]
    version: Option<i64>,
}

macro_rules! says {
    ($($body:ident($self:ident, $verb:ident) $ask:expr;)*) => {$(
        impl Says for $body {
            fn version(&self) -> Option<i64> {
                self.version
            }

            fn ask($self, $verb: Verb) -> Result<Ask, Problem> {
                Ok($ask)
            }
        }
    )*};
}

says! {
    Plain(self, verb) Ask { reason: self.reason, ..Ask::plain(verb) };
    Reasoned(self, verb) Ask { reason: self.reason, ..Ask::plain(verb) };
    Assign(self, verb) Ask {
        assignee: word("assignee", self.assignee)?,
        take_over: self.take_over.unwrap_or_default(),
        reason: self.reason,
        ..Ask::plain(verb)
    };
    Escalate(self, verb) Ask {
        escalation_reason: self.escalation_reason,
        reason: self.reason,
        ..Ask::plain(verb)
    };
    DeEscalate(self, verb) Ask {
        assignee: word("assignee", self.assignee)?,
        reason: self.reason,
        ..Ask::plain(verb)
    };
    Resolve(self, verb) Ask {
        remedy: remedy(self.remedy)?,
        delivery: word("delivery", self.delivery)?,
        vouch: self.vouch.unwrap_or_default(),
        reason: self.reason,
        ..Ask::plain(verb)
    };
    Start(self, verb) Ask {
        remedy: remedy(self.remedy)?,
        delivery: word("delivery", self.delivery)?,
        reason: self.reason,
        ..Ask::plain(verb)
    };
}

/// The remedy of this name.
///
/// # Errors
/// [`Problem`] 422: there is none.
pub(super) fn remedy(text: Option<String>) -> Result<Option<Remedy>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let all = || Remedy::ALL.iter().map(|remedy| remedy.label()).collect::<Vec<_>>().join(", ");
    Remedy::parse(&text)
        .map(Some)
        .ok_or_else(|| Problem::guard("remedy", format!("There is no such remedy. There are: {}.", all())))
}

macro_rules! decisions {
    ($($(#[$doc:meta])* $name:ident $verb:ident $path:literal $body:ident;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "decisions", params(Path, DecisionHeaders),
            request_body = $body, responses(Decides))]
        pub(super) async fn $name(
            State(state): State<ApiState>,
            Decider(person): Decider,
            EntryId(id): EntryId,
            headers: HeaderMap,
            content: Content<$body>,
        ) -> Result<Response, Problem> {
            let Content { body, named } = content;
            let seen = seen(&headers, body.version())?;
            let ask = body.ask(Verb::$verb)?;
            answer(&state, id, seen, &ask, &person, named.as_ref().map(Named::repeat)).await
        }
    )*};
}

decisions! {
    /// Takes an entry under review, or gives it to somebody.
    assign Assign "/api/grey-queue/{id}/assign" Assign;
    /// Gives an entry back: it waits again.
    unassign Unassign "/api/grey-queue/{id}/unassign" Plain;
    /// Asks the security team to decide.
    escalate Escalate "/api/grey-queue/{id}/escalate" Escalate;
    /// Gives an escalated entry back to a reviewer. For roles security and admin.
    de_escalate DeEscalate "/api/grey-queue/{id}/de-escalate" DeEscalate;
    /// Resolves an entry: by evidence, by a remedy that brings it (202), or by vouching for it.
    resolve Resolve "/api/grey-queue/{id}/resolve" Resolve;
    /// Rejects an entry: nothing is to be done about it.
    reject Reject "/api/grey-queue/{id}/reject" Reasoned;
    /// Sets an entry aside that nobody has looked into.
    dismiss Dismiss "/api/grey-queue/{id}/dismiss" Reasoned;
    /// Opens a rejected, dismissed or failed entry again.
    reopen Reopen "/api/grey-queue/{id}/reopen" Reasoned;
    /// Has a failed entry tried from the beginning.
    reset Reset "/api/grey-queue/{id}/reset" Reasoned;
    /// Begins a remedy (202).
    start Start "/api/grey-queue/{id}/start" Start;
}

async fn answer(
    state: &ApiState,
    id: Uuid,
    Seen { version, by_header }: Seen,
    ask: &Ask,
    by: &Person,
    repeat: Option<Repeat<'_>>,
) -> Result<Response, Problem> {
    match decide(&state.commands, &Decision { id, version, ask, by, repeat }).await? {
        Outcome::Done { view, accepted } => {
            let status = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
            Ok((status, [(header::ETAG, etag(view.entry.version))], Json(view)).into_response())
        }
        Outcome::Repeated(kept) => Ok(again(kept)),
        Outcome::KeyMismatch => Err(Problem::idempotency_mismatch()),
        Outcome::Conflict(Conflict { entry, .. }) if by_header => {
            Err(Problem::precondition_failed(entry.version))
        }
        Outcome::Conflict(conflict) => Err(conflict.problem()),
        Outcome::Refused(refusal) => Err(Problem::from(&refusal)),
        Outcome::Unknown => Err(unknown()),
    }
}

/// The answer that was given before, with its tag.
fn again(kept: Kept) -> Response {
    let version = kept.response.get("version").and_then(Value::as_i64);
    let mut response = kept.into_response();
    if let Some(version) = version {
        response.headers_mut().insert(header::ETAG, etag(version));
    }
    response
}
