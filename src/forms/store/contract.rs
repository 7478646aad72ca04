//! Line `versions`: whether what was published is guarded by the schema as it should be, and managed forms are what they follow.
//!
//! Judged from the catalogs, and for drift from the rows. The line must not fail open: without its triggers published content could
//! change, and a loader could replace what was reviewed.

use futures::FutureExt as _;

use super::sql::{STANDING, THERE};
use crate::db::DbError;
use crate::db::contract::guards::{right_faults, trigger_faults};
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::pool::Client;
use crate::ports::CheckLine;

const NAME: &str = "versions";
/// The versions' line of `check` that the database answers.
pub const CHECK: Check =
    Check { line: NAME, order: 78, look: Look::Database(|client, options| content(client, options).boxed()) };

/// Triggers of 002, and their tables.
const TRIGGERS: [(&str, &str); 7] = [
    ("guard", "content.versions"),
    ("guard", "content.entries"),
    ("guard", "content.current"),
    ("place", "content.current"),
    ("content_managed", "content.current"),
    ("content_managed", "public.actions"),
    ("content_managed", "public.templates"),
];

/// What the daemon needs, and what it must not have: it moves the pointer by the function alone.
const RIGHTS: [(&str, &str, bool); 16] = [
    ("content.versions", "SELECT", true),
    ("content.versions", "INSERT", false),
    ("content.versions", "UPDATE", false),
    ("content.entries", "SELECT", true),
    ("content.entries", "INSERT", false),
    ("content.entries", "UPDATE", false),
    ("content.entries", "DELETE", false),
    ("content.decisions", "SELECT", true),
    ("content.decisions", "INSERT", false),
    ("content.signatures", "SELECT", true),
    ("content.signatures", "INSERT", false),
    ("content.signatures", "UPDATE", false),
    ("content.signatures", "DELETE", false),
    ("content.current", "SELECT", true),
    ("content.current", "INSERT", false),
    ("content.current", "UPDATE", false),
];

async fn content(client: &Client, _: &ContractOptions) -> Result<CheckLine, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(CheckLine::ok(
            NAME,
            "absent (optional): a form is what its loader writes; 002 of schema content brings versions",
        ));
    }
    let mut faults = trigger_faults(client, &TRIGGERS).await?;
    faults.extend(right_faults(client, &RIGHTS).await?);
    if !faults.is_empty() {
        let remedy = "as the owner: maple-router migrate --content; where that changes nothing, enable the triggers (ALTER TABLE … \
                      ENABLE TRIGGER), grant or revoke what is named (rb-012)";
        return Ok(CheckLine::fail(
            NAME,
            format!("present, but not as it should be: {}", faults.join("; ")),
            remedy,
        ));
    }
    let row = client.query_one(STANDING, &[]).await?;
    let (managed, drifted): (i64, i64) = (row.try_get("managed")?, row.try_get("drifted")?);
    if let Some(form) = row.try_get::<_, Option<String>>("sample")? {
        return Ok(CheckLine::fail(
            NAME,
            format!("{drifted} managed forms are not what they follow, {form} among them"),
            "promote its version again, or load and publish what the tables have (rb-012)",
        ));
    }
    Ok(CheckLine::ok(
        NAME,
        match managed {
            0 => "present: no form is managed yet, each is what its loader writes".to_owned(),
            1 => "present: one form is managed, and is what it follows".to_owned(),
            more => format!("present: {more} forms are managed, and are what they follow"),
        },
    ))
}
