//! Rows: submissions that were routed three years ago, with fields and files, and the rule by which their time has come.

use anyhow::Result;
use tokio_postgres::Client;

use crate::bench::now;
use crate::program::say;
use crate::stage::BUCKET;

/// Rows of one step: between two, the reader is told.
const AT_ONCE: u64 = 100_000;

/// Submissions with all that is theirs. Triggers are off: blobs and references are written here, the same as they would be. Every
/// fourth submission has a file, an object of its own that is not in the store: within the grace nobody asks for it. `$form`,
/// `$bucket`, `$from`, `$to` are replaced.
const ENDED: &str = r#"
SET session_replication_role = replica;
INSERT INTO submissions (id, form_id, status, routing_result, created_at, updated_at)
SELECT md5(n::text)::uuid, '$form', 'routed', format('{"v": 1, "attempts": 1, "resets": 0, "generations": {}, "plan":
  [{"action_order": 1, "action_type": "email_raw", "template": null, "destination": "a@one.test"}], "deliveries": {"1|a@one.test":
  {"state": "accepted", "at": "2026-01-01T00:00:00Z", "nonce": "%1$s", "token": "%1$s", "smtp": {"code": 250, "enhanced": "2.0.0",
  "reply": "Ok: queued as 4XYZ"}, "queue_id": "4XYZ", "message_id": "<%1$s@one.test>", "late": false}}, "finished": {"token":
  "%1$s", "at": "2026-01-01T00:00:00Z", "status": "routed"}}', md5(n::text))::jsonb, at, at
FROM generate_series($from, $to) AS n, LATERAL (SELECT now() - interval '3 years' + n * interval '0.5 s' AS at) AS t;
INSERT INTO submission_fields (submission_id, field_key, field_value, position)
SELECT md5(n::text)::uuid, 'field ' || f, repeat('x', 40), f FROM generate_series($from, $to) AS n, generate_series(1, 2) AS f;
INSERT INTO attachments (id, submission_id, file_name, content_type, size_bytes, sha256, gcs_bucket, gcs_object, clamav_status)
SELECT md5('a' || n)::uuid, md5(n::text)::uuid, 'a.pdf', 'application/pdf', 1024, sha256(convert_to(n::text, 'UTF8')), '$bucket',
  'load/' || n, 'clean' FROM generate_series($from, $to) AS n WHERE n % 4 = 0;
INSERT INTO content.blobs (id, form_id, origin, bucket, object, sha256, length)
SELECT md5('b' || n)::uuid, '$form', 'adopted', '$bucket', 'load/' || n, sha256(convert_to(n::text, 'UTF8')), 1024
FROM generate_series($from, $to) AS n WHERE n % 4 = 0;
INSERT INTO content.blob_refs (blob_id, kind, holder)
SELECT md5('b' || n)::uuid, 'attachment', md5('a' || n)::uuid::text FROM generate_series($from, $to) AS n WHERE n % 4 = 0;
RESET session_replication_role"#;

/// The rule of every form.
const RULE: &str = "INSERT INTO content.retention (form_id, keep_routed, keep_failed, set_by) VALUES ('', '1 year', '1 year', 'load')";

/// Fills the tables with so many submissions that have ended.
pub(super) async fn ended(eyes: &Client, form: &str, rows: u64) -> Result<()> {
    let began = now();
    let statements = ENDED.replace("$form", form).replace("$bucket", BUCKET);
    let mut filled = 0;
    while filled < rows {
        let to = rows.min(filled + AT_ONCE);
        let step = statements.replace("$from", &(filled + 1).to_string()).replace("$to", &to.to_string());
        eyes.batch_execute(&step).await?;
        filled = to;
        say(&format!("filled {filled} of {rows} in {:.0} s", began.elapsed().as_secs_f64()));
    }
    eyes.batch_execute(RULE).await?;
    Ok(())
}

/// Takes away what rows left behind, has the planner know what is there, and writes what is still to be written.
pub(super) async fn clear(eyes: &Client) -> Result<()> {
    // Each statement by itself: VACUUM runs in no transaction.
    for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        eyes.batch_execute(statement).await?;
    }
    Ok(())
}
