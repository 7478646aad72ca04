//! The review desk: a second listener with a login, for pages and API. A surface like `cli/`: it knows configuration, database,
//! kernel, operations, ports, queries and what surfaces share ([`web`](crate::web)), and neither `cli/` nor the daemon nor a room
//! but the grey queue, screening, grading and forms.
//!
//! **The seam.** Whoever writes pages or API writes plain `axum` handlers:
//!
//! ```ignore
//! async fn assign(visitor: Visitor, State(queue): State<Queue>, Path(id): Path<Uuid>, body: input::Json<Assign>)
//!     -> Result<Json<Entry>, Problem>
//! {
//!     visitor.must(Role::Reviewer)?;
//!     Ok(Json(queue.assign(id, &visitor.user, body.0).await?)) // DbError becomes a Problem by `?`
//! }
//! ```
//!
//! and hands the daemon a [`server::Routes`] with two routers, each with its own state applied (`.with_state`):
//! - `closed`: everything. The middleware has found out who asks before a handler runs, and has refused everybody else; a handler
//!   cannot be open by forgetting something. [`Visitor`](access::Visitor) `{user, role, by}` is an extractor.
//! - `open`: what is shown without a login: CSS, script, fonts. No handler here asks the database.
//!
//! What the middleware does for both: name of the host (421), CSRF (403), body at most 64 KiB (413), 64 requests at once (503),
//! 15 s for an answer (503), requests per user (429), security headers, `no-store`, one access line, metrics, a panic as 500.
//! Whatever has a status of 400 and more becomes a [`Problem`](problem::Problem): JSON below `/api/` and for programs, a page
//! where `Accept` has `text/html` ([`templates::Templates`] makes it: plain ones until there are better).
//!
//! - Errors: `Result<_, Problem>`; constructors for each row of the API's table, `Problem::new(kind, detail, remedy).with(member)`.
//! - Bodies and parameters: [`input`] has `Json`, `Form`, `Query`, `Path` that are axum's and refuse with a `Problem`.
//! - Streams: take a [`stream::Permit`] (256 at once, else 503) and wrap the events in `permit.over(events)`: it ends when the desk
//!   stops, and after ten minutes, so that a browser comes again and proves anew who it is. A stream keeps no session awake.
//! - Transactions: `pool.transaction` on [`server::DeskParts::pool`], which is the desk's own (4 connections, a lock is
//!   waited for 2 s). Names stand on [`card`]. SQL stands in `desk/store/`, or in the grey queue's store.
//! - Idempotency: [`input::Command`] has the key and the digest of the request; inside the command's own transaction
//!   [`store::idempotency`]`::once(tx, user, key, request)` answers `Kept` (answer it again) or `Fresh` (do it, then `keep(…)`).
//! - What people wrote (mail, recipients, fields, links): [`store::access_log`]`::append` in the transaction that reads it.
//! - People: [`access::Users`] knows everybody of `[desk.users]` as the file has them now; never keep a role.
//! - Decisions: `decide` carries one out, `bulk` several; `filters` reads what lists are filtered by; [`live`] tells of changes. API
//!   and pages use the same.
//! - Time comes from the database (`now()`), randomness from the `Rng` of the parts.
//!
//! If we die, nothing is owed: sessions are rows, and a change is a transaction. The desk has a thread, a runtime and connections of
//! its own: a request that hangs here holds up no routing.

pub mod access;
pub mod api;
mod bulk;
pub mod card;
mod check;
mod confined;
mod decide;
mod filters;
mod follow;
mod grades;
pub mod idempotency;
pub mod input;
pub mod journal;
pub mod limits;
pub mod live;
pub mod login;
pub mod metrics;
pub mod pages;
pub mod policy;
pub mod problem;
pub mod server;
pub mod site;
pub mod store;
pub mod stream;
pub mod templates;
mod upkeep;

use crate::web::name::Name;

/// How the desk is called.
const NAME: Name = Name { within: "the desk", at_first: "The review desk", short: "desk" };
