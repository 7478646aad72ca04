//! The description of the API, OpenAPI 3.1. The refusals are made of [`Kind`], so that what is documented is what is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::http::header;
use axum::response::IntoResponse;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{AdditionalProperties, KnownFormat, ObjectBuilder, SchemaFormat};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Required, Schema, Type,
};
use utoipa::{IntoParams, IntoResponses};

use crate::uploads::problem::Kind;
use crate::web::problem::{CONTENT_TYPE, ProblemKind as _};

/// The description before any path is in it.
pub(super) fn head() -> OpenApi {
    let about = "Files that browsers and programs bring, in parts, straight to the object store.\n\n\
        The backend makes a session with its key and hands the session's token to whoever has the file. The client asks for links of \
        parts, sends each with PUT and a Content-Length, says `complete`, and waits with GET ?wait=20 until the state is `committed` or \
        `aborted`. What the store has of a file is shown by GET, so that a client may go on after any interruption. Whatever is \
        refused is `application/problem+json` with `type`, `detail` and `remedy`, and has changed nothing.";
    let bearer = |about: &str| {
        SecurityScheme::Http(
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(about)).build(),
        )
    };
    let components = ComponentsBuilder::new()
        .schema("Problem", problem())
        .security_scheme("key", bearer("The backend's key: systemd's credential uploads-key."))
        .security_scheme("token", bearer("The token of one session."));
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("maple-router uploads")
                .description(Some(about))
                .version(env!("CARGO_PKG_VERSION"))
                .build(),
        )
        .components(Some(components.build()))
        .security(Some(["token", "key"].map(|scheme| SecurityRequirement::new(scheme, [] as [&str; 0]))))
        .build()
}

fn text() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).build().into()
}

fn problem() -> RefOr<Schema> {
    let number = ObjectBuilder::new().schema_type(Type::Integer).build();
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("type", text())
        .property("title", text())
        .property("status", number)
        .property("detail", text())
        .property("remedy", text())
        .required("type")
        .required("title")
        .required("status")
        .required("detail")
        .required("remedy")
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
        .build()
        .into()
}

/// The description as a document.
pub(super) fn text_of(description: &OpenApi) -> String {
    description.to_pretty_json().unwrap_or_default()
}

/// Describes the API: this document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "description", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)))]
pub(super) async fn openapi(Extension(text): Extension<Arc<str>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text.to_string())
}

/// Refusals that any request may meet.
const ANY: [Kind; 9] = [
    Kind::BadRequest,
    Kind::Unauthenticated,
    Kind::NotFound,
    Kind::Host,
    Kind::Internal,
    Kind::NotInstalled,
    Kind::DatabaseAway,
    Kind::StoreAway,
    Kind::Busy,
];
/// Refusals that changes may meet beside.
const CHANGE: [Kind; 17] = [
    Kind::NotPossible,
    Kind::PartsMissing,
    Kind::SubmissionClosed,
    Kind::Expired,
    Kind::Aborted,
    Kind::Lost,
    Kind::TooLarge,
    Kind::Type,
    Kind::UnsupportedMediaType,
    Kind::LengthMismatch,
    Kind::DigestMismatch,
    Kind::IdempotencyMismatch,
    Kind::Name,
    Kind::Guard,
    Kind::PreconditionRequired,
    Kind::Sessions,
    Kind::Bytes,
];

/// Refusals of a read.
pub(super) struct Reads;
/// Refusals of a change.
pub(super) struct Changes;

impl IntoResponses for Reads {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY, &[Kind::Guard]])
    }
}

impl IntoResponses for Changes {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[&ANY, &CHANGE])
    }
}

fn refusals(sets: &[&[Kind]]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Kind>> = BTreeMap::new();
    for kind in sets.iter().flat_map(|set| set.iter()) {
        by_status.entry(kind.status().as_u16()).or_default().push(*kind);
    }
    let response = |kinds: Vec<Kind>| {
        let words: Vec<String> = kinds.iter().map(|kind| format!("`{kind}`: {}", kind.title())).collect();
        RefOr::T(
            ResponseBuilder::new()
                .description(words.join("; "))
                .content(CONTENT_TYPE, Content::new(Some(Ref::from_schema_name("Problem"))))
                .build(),
        )
    };
    by_status.into_iter().map(|(status, kinds)| (status.to_string(), response(kinds))).collect()
}

/// The id in a path.
pub(super) struct UploadId;

impl IntoParams for UploadId {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let format = SchemaFormat::KnownFormat(KnownFormat::Uuid);
        let id = ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build();
        let parameter =
            ParameterBuilder::new().name("id").parameter_in(ParameterIn::Path).required(Required::True);
        vec![parameter.description(Some("the session")).schema(Some(id)).build()]
    }
}
