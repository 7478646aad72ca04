//! Line `uploads`: whether what is brought is guarded by the schema as it should be.
//!
//! Judged from the catalogs. The line must not fail open: without its triggers an upload could be committed unproven, a reference
//! born of a blob that is gone, and a verdict changed by somebody else than the function that tells attachments.

use futures::FutureExt as _;

use super::sql::THERE;
use crate::db::DbError;
use crate::db::contract::guards::{right_faults, trigger_faults};
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::pool::Client;
use crate::ports::CheckLine;

const NAME: &str = "uploads";
/// The uploads' line of `check` that the database answers.
pub const CHECK: Check =
    Check { line: NAME, order: 77, look: Look::Database(|client, options| content(client, options).boxed()) };

/// Triggers of 001, and their tables.
const TRIGGERS: [(&str, &str); 6] = [
    ("born", "content.uploads"),
    ("guard", "content.uploads"),
    ("guard", "content.blobs"),
    ("guard", "content.blob_refs"),
    ("unref", "content.blob_refs"),
    ("content_refs", "public.attachments"),
];

/// What the role needs, and what it must not have: blobs are made by the trigger and judged by the function.
const RIGHTS: [(&str, &str, bool); 15] = [
    ("content.uploads", "SELECT", true),
    ("content.uploads", "INSERT", true),
    ("content.uploads", "UPDATE", true),
    ("content.uploads", "DELETE", false),
    ("content.blobs", "SELECT", true),
    ("content.blobs", "INSERT", false),
    ("content.blobs", "UPDATE", false),
    ("content.blobs", "DELETE", false),
    ("content.blob_refs", "SELECT", true),
    ("content.blob_refs", "INSERT", false),
    ("content.blob_refs", "DELETE", true),
    ("content.staging", "SELECT", true),
    ("content.staging", "INSERT", true),
    ("content.staging", "UPDATE", true),
    ("content.staging", "DELETE", true),
];

/// Functions that the role must be able to call.
const CALLED: &str = "SELECT n.f FROM unnest(ARRAY['content.attach(uuid,uuid)', 'content.record_verdict(uuid,text,text,text)']) AS n (f)
WHERE NOT COALESCE(has_function_privilege(to_regprocedure(n.f), 'EXECUTE'), false) ORDER BY 1";

/// Functions that run as their owner, where row-level security binds that role.
const FUNCTIONS: &str = "SELECT p.proname::text, r.rolname::text, string_agg(c.relname, ', ' ORDER BY c.relname)
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
JOIN pg_class c ON c.oid IN (to_regclass('submissions'), to_regclass('attachments')) AND c.relrowsecurity
  AND NOT (r.rolsuper OR r.rolbypassrls) AND (c.relforcerowsecurity OR NOT pg_has_role(p.proowner, c.relowner, 'USAGE'))
WHERE p.pronamespace = to_regnamespace('content') AND p.proname IN ('attach', 'record_verdict')
GROUP BY 1, 2";

async fn content(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        if options.uploads {
            return Ok(CheckLine::fail(
                NAME,
                "uploads.listen is set, and there is no schema content that this role may use: nothing is taken",
                "as the owner: maple-router migrate --content; or leave uploads.listen out",
            ));
        }
        return Ok(CheckLine::ok(
            NAME,
            "absent (optional): attachments appear in the database by somebody else's hand; schema content brings uploads",
        ));
    }
    let mut faults = trigger_faults(client, &TRIGGERS).await?;
    for row in client.query(FUNCTIONS, &[]).await? {
        let (name, owner, bound): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        faults.push(format!(
            "row-level security may hide rows of {bound} from {owner}, who owns content.{name}"
        ));
    }
    for row in client.query(CALLED, &[]).await? {
        faults.push(format!("this role may not call {}", row.get::<_, String>(0)));
    }
    faults.extend(right_faults(client, &RIGHTS).await?);
    if faults.is_empty() {
        return Ok(CheckLine::ok(NAME, "present: what is committed was proven, and keeps its reference"));
    }
    let remedy = "as the owner: maple-router migrate --content; where that changes nothing, enable the triggers (ALTER TABLE … \
                  ENABLE TRIGGER), grant or revoke what is named, or take it back and apply it anew (migrate --content --back 001)";
    Ok(CheckLine::fail(NAME, format!("present, but not as it should be: {}", faults.join("; ")), remedy))
}
