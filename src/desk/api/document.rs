//! The description of the API, OpenAPI 3.1: its head, the parameters and refusals that many operations share. The refusals are
//! made of [`Kind`], so that what is documented is what is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::http::header;
use axum::response::IntoResponse;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ArrayBuilder, KnownFormat, ObjectBuilder, SchemaFormat};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ComponentsBuilder, Content, Header, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Schema,
    Type,
};
use utoipa::{IntoParams, IntoResponses, PartialSchema as _};

use super::schema;
use crate::desk::access::learner;
use crate::desk::access::presented::COOKIE;
use crate::desk::filters::{LIMIT, MOST};
use crate::desk::problem::Kind;
use crate::grey_queue::store::Order;
use crate::grey_queue::table::State;
use crate::web::idempotency;
use crate::web::problem::{CONTENT_TYPE, ProblemKind as _};

/// The description before any path is in it.
pub(super) fn head() -> OpenApi {
    let about = "What waits for a person: entries of the review queue, and decisions about them; runs of screening; grades, and \
        what learners follow.\n\n\
        A decision names the version that was seen, by `If-Match` or by a member `version`. A request with an `Idempotency-Key` is \
        carried out once: for 24 hours the same request is given the same answer. Whatever is refused is \
        `application/problem+json` with `type`, `detail` and `remedy`, and has changed nothing.";
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "Made on the host: sudo maple-router desk token NAME. It has a role of its own, at most the user's.",
    ));
    let session = ApiKeyValue::with_description(COOKIE, "A browser's session, after a login link.");
    let learner = ApiKeyValue::with_description(
        learner::COOKIE,
        "A learner's, for one submission, after a ticket: reads that submission's grade and events.",
    );
    let components = ComponentsBuilder::new()
        .schema("Problem", schema::Problem::schema())
        .security_scheme("token", SecurityScheme::Http(token.build()))
        .security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)))
        .security_scheme("learner", SecurityScheme::ApiKey(ApiKey::Cookie(learner)));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("maple-router review desk")
                .description(Some(about))
                .version(env!("CARGO_PKG_VERSION"))
                .build(),
        )
        .components(Some(components.build()))
        .security(Some(["token", "session"].map(|scheme| SecurityRequirement::new(scheme, [] as [&str; 0]))))
        .build()
}

/// The description as a document.
pub(super) fn text(description: &OpenApi) -> String {
    description.to_pretty_json().unwrap_or_default()
}

/// Describes the API: this document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "description",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), Reads))]
pub(super) async fn openapi(Extension(text): Extension<Arc<str>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string())
}

/// Refusals that any request may meet.
const ANY: [Kind; 10] = [
    Kind::BadRequest,
    Kind::Unauthenticated,
    Kind::UnknownUser,
    Kind::NotFound,
    Kind::Host,
    Kind::RateLimited,
    Kind::Internal,
    Kind::NotInstalled,
    Kind::DatabaseAway,
    Kind::Busy,
];
/// Refusals that changes may meet beside.
const CHANGE: [Kind; 7] = [
    Kind::Csrf,
    Kind::Role,
    Kind::TooLarge,
    Kind::UnsupportedMediaType,
    Kind::IdempotencyMismatch,
    Kind::Guard,
    Kind::EvidenceMissing,
];
/// Refusals of a decision about one entry.
const DECISION: [Kind; 5] = [
    Kind::VersionConflict,
    Kind::NotPossible,
    Kind::OpenTwin,
    Kind::PreconditionFailed,
    Kind::PreconditionRequired,
];

/// Refusals of a read.
pub(super) struct Reads;
/// Refusals of a decision.
pub(super) struct Decides;
/// Refusals of a bulk.
pub(super) struct DecidesMany;
/// Refusals of another run.
pub(super) struct Rescreens;
/// Refusals of a grade, and of a ticket.
pub(super) struct Assesses;
/// Refusals of what learners see.
pub(super) struct Learns;

impl IntoResponses for Assesses {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY, &CHANGE, &DECISION])
    }
}

impl IntoResponses for Learns {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY, &[Kind::Role, Kind::Ticket]])
    }
}

impl IntoResponses for Reads {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY])
    }
}

impl IntoResponses for Decides {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let done = |what: &str| {
            let etag = Header::new(schema::text());
            RefOr::T(
                ResponseBuilder::new()
                    .description(what)
                    .header("ETag", etag)
                    .content("application/json", Content::new(Some(Ref::from_schema_name("EntryView"))))
                    .build(),
            )
        };
        let mut all = refusals(&[&ANY, &CHANGE, &DECISION]);
        all.insert("200".to_owned(), done("it is done: the entry after it"));
        all.insert("202".to_owned(), done("a remedy is under way: evidence ends it, or its failure"));
        all
    }
}

impl IntoResponses for Rescreens {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY, &CHANGE, &[Kind::NotPossible]])
    }
}

impl IntoResponses for DecidesMany {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY, &CHANGE, &[Kind::SelectionChanged]])
    }
}

fn refusals(sets: &[&[Kind]]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in sets.iter().flat_map(|set| set.iter()) {
        by_status.entry(kind.status().as_u16()).or_default().push(*kind);
    }
    let response = |kinds: Vec<Kind>| {
        let words: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`: {}", kind.title())).collect();
        let mut response = ResponseBuilder::new()
            .description(words.join("; "))
            .content(CONTENT_TYPE, Content::new(Some(Ref::from_schema_name("Problem"))));
        if kinds.iter().any(|kind| matches!(kind, Kind::RateLimited | Kind::Busy)) {
            let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
            response = response.header("Retry-After", Header::new(seconds));
        }
        RefOr::T(response.build())
    };
    by_status.into_iter().map(|(status, kinds)| (status.to_string(), response(kinds))).collect()
}

/// The id in a path.
pub(super) struct Path;
/// Headers of a decision about one entry.
pub(super) struct DecisionHeaders;
/// Headers of a bulk.
pub(super) struct BulkHeaders;
/// Parameters of the list.
pub(super) struct ListParameters;
/// The id of a submission in a path, or of an attempt at it.
pub(super) struct AssessmentPath;
/// A learner's ticket.
pub(super) struct TicketParameter;

impl IntoParams for AssessmentPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let id = schema::text_of(SchemaFormat::KnownFormat(KnownFormat::Uuid));
        let about = "the submission; for people also an attempt at grading it";
        vec![parameter(ParameterIn::Path, "submission", about, id)]
    }
}

impl IntoParams for TicketParameter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let text = ObjectBuilder::new().schema_type(Type::String).max_length(Some(128)).build();
        let about = "a ticket, which is spent: it sets the cookie";
        vec![parameter(ParameterIn::Query, "ticket", about, text.into())]
    }
}

/// The id of a run, or of its submission, in a path.
pub(super) struct RunPath;
/// Parameters of the list of runs.
pub(super) struct RunParameters;

impl IntoParams for RunPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let id = schema::text_of(SchemaFormat::KnownFormat(KnownFormat::Uuid));
        vec![parameter(ParameterIn::Path, "id", "the run, or its submission", id)]
    }
}

impl IntoParams for RunParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let in_query = |(name, about, schema)| parameter(ParameterIn::Query, name, about, schema);
        let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(200));
        [
            ("state", "in this state", schema::run_state()),
            ("form", "of this form", schema::filter()),
            (
                "submission",
                "of this submission",
                schema::text_of(SchemaFormat::KnownFormat(KnownFormat::Uuid)),
            ),
            (
                "dead",
                "only those whose job was given up on",
                ObjectBuilder::new().schema_type(Type::Boolean).build().into(),
            ),
            ("limit", "at most so many", number.default(Some(100.into())).build().into()),
        ]
        .into_iter()
        .map(in_query)
        .collect()
    }
}

impl IntoParams for Path {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let id = schema::text_of(SchemaFormat::KnownFormat(KnownFormat::Uuid));
        vec![parameter(ParameterIn::Path, "id", "the entry", id)]
    }
}

impl IntoParams for DecisionHeaders {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let tag = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^\"[0-9]{1,15}\"$")).build();
        let about = "the ETag of the entry as it was seen; without it, a member `version` of the content";
        let mut all = vec![parameter(ParameterIn::Header, "If-Match", about, tag.into())];
        all.extend(BulkHeaders::into_params(|| None));
        all
    }
}

impl IntoParams for BulkHeaders {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let key = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!#-~]{1,128}$")).build();
        let about = "a name for this request, by which a repetition is known for 24 hours";
        vec![parameter(ParameterIn::Header, idempotency::NAME, about, key.into())]
    }
}

impl IntoParams for ListParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let in_query = |(name, about, schema)| parameter(ParameterIn::Query, name, about, schema);
        let states = schema::one_of(State::ALL.iter().map(|state| state.label()).chain(["all"]));
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(u32::try_from(MOST).unwrap_or(u32::MAX)))
            .default(Some(LIMIT.into()));
        let age = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]{1,5}[smhdw]$"));
        let all = [
            (
                "state",
                "one of these states; none: the open ones; `all`: every state; also separated by commas",
                ArrayBuilder::new().items(states).build().into(),
            ),
            (
                "cause",
                "of this cause: `failed`, `infected`, `late_infection`, `bounced`, `dead_letter`, `screening`, `screening_job`, `grading`, `grading_failed`, `grading_message`",
                schema::filter(),
            ),
            ("reason", "with this reason: the cause's own word", schema::filter()),
            ("form", "of this form", schema::filter()),
            ("queue", "of this queue: `operations`, `security`, `screening`, `grading`", schema::filter()),
            ("assignee", "under review by `me`, by `none`, or by this user", schema::filter()),
            (
                "subject",
                "about this submission or dead letter",
                schema::text_of(SchemaFormat::KnownFormat(KnownFormat::Uuid)),
            ),
            ("older_than", "opened longer ago than this, as `2h`", age.build().into()),
            (
                "order",
                "which comes first; without it open ones of grading go by priority, then age",
                schema::one_of(Order::ALL.iter().map(|order| order.label())),
            ),
            ("limit", "entries of a page", number.build().into()),
            ("cursor", "`next_cursor` of the page before", schema::text().into()),
        ];
        all.into_iter().map(in_query).collect()
    }
}

fn parameter(place: ParameterIn, name: &str, about: &str, schema: RefOr<Schema>) -> Parameter {
    let required = if matches!(place, ParameterIn::Path) { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(Some(about))
        .schema(Some(schema))
        .build()
}
