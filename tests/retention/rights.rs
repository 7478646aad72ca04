//! Each identity is denied the others' work: by the database's roles, and by the store's accounts.

use crate::harness::{COLLECTOR, CONTENT, Scene};

#[tokio::test]
async fn each_role_is_denied_the_work_of_the_others() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    let blob = scene.attach(id, "a").await;
    let nobody: &[&str] = &[
        "DELETE FROM content.blobs",
        "DELETE FROM content.holds",
        "UPDATE content.holds SET released_at = now(), released_by = 'x', released_why = 'x'",
        "INSERT INTO content.receipts (id, body, digest) VALUES (1, '{}', sha256('x'))",
        "DELETE FROM attachments",
        "DELETE FROM submission_fields",
        "DELETE FROM submissions",
    ];
    let collector: &[&str] = &[
        "SELECT * FROM submissions",
        "SELECT * FROM submission_fields",
        "SELECT * FROM attachments",
        "UPDATE submissions SET status = 'purged'",
        "SELECT * FROM router.outbox",
        "INSERT INTO router.outbox (kind, payload) VALUES ('x', '{}')",
        "INSERT INTO content.retention (form_id, keep_routed, keep_failed, set_by) VALUES ('x', '1 day', '1 day', 'x')",
        "SELECT content.place_hold('all', '', 'r', 'x')",
        "SELECT content.release_hold(1, 'x', 'r')",
        "DELETE FROM content.blob_refs",
        "INSERT INTO content.blob_refs (blob_id, kind, holder) SELECT id, 'version', 'x' FROM content.blobs",
        "UPDATE content.blobs SET verdict = 'clean'",
        "INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type) VALUES ('outbox', '1', 'a', 'b', 'c', 'd', 'collector')",
        "INSERT INTO audit_log (actor, action) VALUES ('x', 'submission_viewed')",
    ];
    let daemon: &[&str] = &[
        "SELECT * FROM content.purge(ARRAY[gen_random_uuid()], 'erasure', 'x', NULL)",
        "SELECT content.write_receipts('x', ARRAY['y'], 'z', NULL, ARRAY['{}'::jsonb])",
        "SELECT content.move_recalled(gen_random_uuid(), 1)",
        "SELECT content.forget_versions(1, 'x')",
        "UPDATE content.blobs SET state = 'tombstoned', deadline = now()",
        "INSERT INTO content.gc_runs (actor, lease_token, leased_until) VALUES ('x', gen_random_uuid(), now())",
        "UPDATE content.grace SET value = '0'",
        "UPDATE content.retention SET keep_routed = '1 day'",
        "INSERT INTO content.recalls (id, blob_id, submission_id, bucket, old_object, new_object, reason, actor) SELECT gen_random_uuid(), id, gen_random_uuid(), 'b', 'o', 'n', 'r', 'a' FROM content.blobs",
    ];
    let publisher: &[&str] = &[
        "SELECT * FROM content.purge(ARRAY[gen_random_uuid()], 'retention', 'x', NULL)",
        "SELECT content.place_hold('all', '', 'r', 'x')",
        "UPDATE content.blobs SET state = 'tombstoned', deadline = now()",
        "SELECT * FROM content.receipts",
    ];
    for (role, own) in [("maple_gc", collector), ("forms_app", daemon), ("forms_loader", publisher)] {
        let client = scene.db.client_as(role).await.expect("a client");
        for work in nobody.iter().chain(own) {
            let denied = client.batch_execute(work).await.expect_err(&format!("{role}: {work}"));
            let code = denied.as_db_error().expect("said by the server").code().code().to_owned();
            // insufficient_privilege; a policy that admits no row says it, too.
            assert_eq!(code, "42501", "{role}: {work}: {denied:?}");
        }
    }
    assert_eq!(scene.state(blob).await, "live");
}

/// The daemon's account cannot delete or overwrite; the collector's can.
#[tokio::test]
async fn the_daemons_account_cannot_delete() {
    let scene = Scene::new().await;
    scene.google.put_object(CONTENT, "a", "text/plain", "a");
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/storage/v1/b/{CONTENT}/o/a", scene.google.storage_endpoint());
    let by = |account: &str| http.delete(&url).bearer_auth(scene.google.token_of(account)).send();
    let denied = by(scene.google.service_account_email()).await.expect("an answer");
    assert_eq!(denied.status(), 403);
    assert!(scene.is_there("a"));
    assert_eq!(by(COLLECTOR).await.expect("an answer").status(), 204);
}
