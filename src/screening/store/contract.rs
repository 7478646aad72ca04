//! Line `screening`: whether the gate is shut as it should be.
//!
//! Judged from the catalogs. The line must not fail open: without a trigger a submission could be claimed unscreened, or a run published
//! by an edge that is not tabled.

use futures::FutureExt as _;

use super::THERE;
use crate::db::DbError;
use crate::db::contract::guards::{right_faults, trigger_faults};
use crate::db::contract::{Check, ContractOptions, Look};
use crate::db::pool::Client;
use crate::ports::CheckLine;

const NAME: &str = "screening";
/// The line of `check` that the database answers.
pub const CHECK: Check =
    Check { line: NAME, order: 81, look: Look::Database(|client, options| line(client, options).boxed()) };

/// Triggers of 001, and their tables.
const TRIGGERS: [(&str, &str); 4] = [
    ("screening_guard_claim", "public.submissions"),
    ("screening_subject_ended", "public.submissions"),
    ("guard", "screening.submissions"),
    ("moved", "screening.submissions"),
];

/// What the daemon's role needs, and what it must not have: it looks, and people decide by the function alone.
const RIGHTS: [(&str, &str, bool); 9] = [
    ("screening.submissions", "SELECT", true),
    ("screening.submissions", "INSERT", false),
    ("screening.submissions", "UPDATE", false),
    ("screening.submissions", "DELETE", false),
    ("screening.submission_state_events", "SELECT", true),
    ("screening.submission_state_events", "INSERT", false),
    ("screening.submission_state_events", "UPDATE", false),
    ("screening.forms", "UPDATE", false),
    ("screening.calibrations", "INSERT", false),
];

/// Whether the daemon's role may decide as a person, which is the desk's alone.
const DECIDES: &str =
    "SELECT has_function_privilege('screening.decide(uuid, bigint, text, text, text)', 'EXECUTE') AS decides";

/// Functions that run as their owner, where row-level security binds that role.
const FUNCTIONS: &str = "SELECT p.proname::text, r.rolname::text, string_agg(c.relname, ', ' ORDER BY c.relname)
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
JOIN pg_class c ON c.oid IN (to_regclass('submissions'), to_regclass('submission_fields'), to_regclass('attachments')) AND c.relrowsecurity
  AND NOT (r.rolsuper OR r.rolbypassrls) AND (c.relforcerowsecurity OR NOT pg_has_role(p.proowner, c.relowner, 'USAGE'))
WHERE p.pronamespace = to_regnamespace('screening') AND p.proname IN ('digest_of', 'content', 'birth', 'births')
GROUP BY 1, 2 ORDER BY 1";

const STANDING: &str = "SELECT (SELECT count(*) FROM screening.forms) AS forms,
  (SELECT count(*) FROM screening.forms WHERE enforced_since IS NOT NULL) AS enforced,
  (SELECT count(*) FROM screening.submissions WHERE dead_at IS NOT NULL AND closed_at IS NULL) AS dead";

async fn line(client: &Client, options: &ContractOptions) -> Result<CheckLine, DbError> {
    if !client.query_one(THERE, &[]).await?.try_get::<_, bool>("there")? {
        if options.screening {
            return Ok(CheckLine::fail(
                NAME,
                "screening.mode is on, and there is no schema screening that this role may use: nothing is claimed",
                "as the owner: maple-router migrate --screening; or set screening.mode = \"off\"",
            ));
        }
        return Ok(CheckLine::ok(NAME, "absent (optional): every submission is routed unscreened"));
    }
    let mut faults = trigger_faults(client, &TRIGGERS).await?;
    faults.extend(right_faults(client, &RIGHTS).await?);
    if client.query_one(DECIDES, &[]).await?.try_get("decides")? {
        faults.push("the daemon's role, which is the backend's, may execute screening.decide".to_owned());
    }
    for row in client.query(FUNCTIONS, &[]).await? {
        let (name, owner, bound): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        faults.push(format!(
            "row-level security may hide rows of {bound} from {owner}, who owns screening.{name}"
        ));
    }
    if !faults.is_empty() {
        return Ok(CheckLine::fail(
            NAME,
            format!("present, but not as it should be: {}", faults.join("; ")),
            "as the owner: maple-router migrate --screening; where that changes nothing, enable the triggers (ALTER TABLE … ENABLE \
             TRIGGER), grant or revoke what is named (rb-014)",
        ));
    }
    let row = client.query_one(STANDING, &[]).await?;
    let (forms, enforced, dead): (i64, i64, i64) = (row.get("forms"), row.get("enforced"), row.get("dead"));
    if enforced > 0 && !options.screening {
        return Ok(CheckLine::fail(
            NAME,
            format!(
                "{enforced} forms are enforced, and screening.mode is off: their submissions are claimed by nobody"
            ),
            "set screening.mode = \"on\" and restart; or maple-router screening enable FORM --shadow",
        ));
    }
    if dead > 0 {
        let detail = format!("present: {forms} forms, {enforced} enforced; {dead} jobs were given up on");
        return Ok(CheckLine::warn(NAME, detail, "maple-router screening jobs --dead (rb-014)"));
    }
    Ok(CheckLine::ok(NAME, format!("present: {forms} forms, {enforced} enforced")))
}
