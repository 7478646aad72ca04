//! Nothing open, undelivered, untold, held, under review or damaged is ever emptied: each reason by itself, and all of them in a crowd.

use maple_router::retention::store::submissions::Authority;
use maple_router::retention::why::meaning;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{ROUTED, Scene, failed};

/// A routed ledger with this delivery.
fn with(delivery: &Value) -> String {
    let mut ledger: Value = serde_json::from_str(ROUTED).expect("a document");
    ledger["deliveries"]["2|b@example.org"] = delivery.clone();
    ledger.to_string()
}

/// Makes a submission that is kept for this reason.
async fn kept_for(scene: &Scene, case: &str) -> Uuid {
    let id = scene.received().await;
    let routed = |ledger: String| async move { scene.ended(id, "routed", &ledger).await };
    let accepted = |relay: Value| with(&json!({"state": "accepted", "relay": relay}));
    match case {
        "open" => {}
        "processing" => scene.ended(id, "processing", r#"{"v": 1, "claim": {}}"#).await,
        "held" => {
            routed(ROUTED.to_owned()).await;
            scene.sql(&format!("SELECT content.place_hold('submission', '{id}', 'a case', 'z')")).await;
        }
        "review" => {
            routed(ROUTED.to_owned()).await;
            scene
                .sql(&format!(
                    "SELECT router.open_entry('bounced', 'bounced', 'submission', '{id}', 'f', 'k', '{{}}')"
                ))
                .await;
        }
        "event" => {
            routed(ROUTED.to_owned()).await;
            scene.sql(&format!("INSERT INTO router.outbox (kind, entity_id, payload) VALUES ('submission.finalized', '{id}', '{{}}')")).await;
        }
        "dead letter" => {
            routed(ROUTED.to_owned()).await;
            scene
                .sql(&format!(
                    "WITH o AS (INSERT INTO router.outbox (kind, entity_id, payload, state) VALUES ('submission.finalized', '{id}', '{{}}', 'dead_letter') RETURNING id)
                     INSERT INTO router.dead_letters (id, kind, at, submission_id, reason, message_id, payload, payload_sha256)
                     SELECT gen_random_uuid(), 'unknown_submission', now(), '{id}', 'r', 'outbox:' || o.id, '', repeat('a', 64) FROM o"
                ))
                .await;
        }
        "damaged" => routed("[1]".to_owned()).await,
        "damaged deliveries" => routed(r#"{"v": 1, "deliveries": 7}"#.to_owned()).await,
        "state unknown" => routed(with(&json!({"state": "sent"}))).await,
        "no state" => routed(with(&json!({"begun": {"token": "t", "at": "x"}}))).await,
        "doubt is no boolean" => routed(with(&json!({"state": "accepted", "doubt": "yes"}))).await,
        "a list of deliveries" => routed(with(&json!([{"state": "accepted"}]))).await,
        "status is no word" => routed(accepted(json!({"status": 7}))).await,
        "newer ledger" => routed(ROUTED.replace(r#""v": 1"#, r#""v": 2"#)).await,
        "open delivery" => routed(with(&json!({"state": "open"}))).await,
        "bounce told null" => routed(accepted(json!({"status": "bounced", "told_at": null}))).await,
        "uploading" => {
            routed(ROUTED.to_owned()).await;
            scene
                .sql(&format!(
                    "INSERT INTO content.uploads (id, form_id, owner, submission_id, idempotency_key, request_digest, token_sha256, file_name, content_type,
                       length, part_size, planned_blob, expires_at, unattached_ttl)
                     VALUES (gen_random_uuid(), 'f', 'zoe', '{id}', '{id}', sha256('r'), sha256('t'), 'zoe.pdf', 'text/plain', 1, 8388608, gen_random_uuid(),
                       now() + interval '1 h', '1 h')"
                ))
                .await;
        }
        "untold failure" => scene.ended(id, "failed", &failed(false)).await,
        "told of another failure" => {
            scene.ended(id, "failed", &failed(true).replace(r#""for":"t""#, r#""for":"former""#)).await;
        }
        "untold infection" => {
            routed(ROUTED.to_owned()).await;
            scene.name(id, &format!("o{id}")).await;
            scene.infect_unseen(id).await;
        }
        "doubt" => routed(with(&json!({"state": "failed", "doubt": true}))).await,
        "intent" => routed(with(&json!({"state": "failed", "begun": {"token": "t", "at": "x"}}))).await,
        "deferred" => routed(accepted(json!({"status": "deferred"}))).await,
        "bounce untold" => routed(accepted(json!({"status": "bounced"}))).await,
        "expired untold" => routed(accepted(json!({"status": "expired"}))).await,
        "not yet" => {
            routed(ROUTED.to_owned()).await;
            scene
                .sql(&format!(
                    "UPDATE submissions SET retention_expires_at = now() + interval '1 day' WHERE id = '{id}'"
                ))
                .await;
        }
        "no end" => {
            routed(ROUTED.to_owned()).await;
            scene
                .sql(&format!("UPDATE submissions SET retention_expires_at = 'infinity' WHERE id = '{id}'"))
                .await;
        }
        other => panic!("no case {other}"),
    }
    id
}

const CASES: [(&str, &str); 27] = [
    ("open", "open"),
    ("processing", "open"),
    ("held", "held"),
    ("review", "review"),
    ("event", "event"),
    ("dead letter", "event"),
    ("damaged", "damaged"),
    ("damaged deliveries", "damaged"),
    ("untold failure", "untold"),
    ("told of another failure", "untold"),
    ("untold infection", "untold"),
    ("doubt", "undelivered"),
    ("intent", "undelivered"),
    ("deferred", "undelivered"),
    ("bounce untold", "undelivered"),
    ("expired untold", "undelivered"),
    ("not yet", "not_yet"),
    ("no end", "no_end"),
    ("state unknown", "damaged"),
    ("no state", "damaged"),
    ("doubt is no boolean", "damaged"),
    ("a list of deliveries", "damaged"),
    ("status is no word", "damaged"),
    ("newer ledger", "damaged"),
    ("open delivery", "undelivered"),
    ("bounce told null", "undelivered"),
    ("uploading", "uploading"),
];

#[tokio::test]
async fn each_reason_keeps_it_and_says_so() {
    let scene = Scene::new().await;
    for (case, why) in CASES {
        let id = kept_for(&scene, case).await;
        let purged = scene.store.purge(&[id], Authority::Retention, "gc", None).await.expect(case);
        assert_eq!(purged[0].why.as_deref(), Some(why), "{case}");
        assert!(!meaning(why).contains("does not know"), "{why} has words");
        assert_ne!(scene.status(id).await, "purged", "{case}");
        let fields: i64 =
            scene.one(&format!("SELECT count(*) FROM submission_fields WHERE submission_id = '{id}'")).await;
        assert_eq!(fields, 2, "{case}");
        // An erasure skips the time, and nothing else.
        let erased = scene.store.purge(&[id], Authority::Erasure, "gc", None).await.expect(case);
        let expected = (why != "not_yet" && why != "no_end").then_some(why);
        assert_eq!(erased[0].why.as_deref(), expected, "{case}");
    }
}

#[tokio::test]
async fn what_people_know_of_is_no_reason() {
    let scene = Scene::new().await;
    let told = |status: &str| {
        with(&json!({"state": "accepted", "relay": {"status": status, "told_at": "2026-01-01T00:00:00Z"}}))
    };
    for ledger in [
        told("bounced"),
        told("expired"),
        with(&json!({"state": "accepted", "relay": {"status": "delivered"}})),
        with(&json!({"state": "accepted", "begun": {"token": "t"}})),
        with(&json!({"state": "not_implemented"})),
        "{}".to_owned(),
    ] {
        let id = scene.received().await;
        scene.ended(id, "routed", &ledger).await;
        let purged = scene.store.purge(&[id], Authority::Retention, "gc", None).await.expect("answered");
        assert_eq!(purged[0].why, None, "{ledger}");
    }
    let id = scene.received().await;
    scene.ended(id, "failed", &failed(true)).await;
    // A failed one has an entry of the review, until somebody closes it.
    let purge = || scene.store.purge(std::slice::from_ref(&id), Authority::Retention, "gc", None);
    assert_eq!(purge().await.expect("answered")[0].why.as_deref(), Some("review"));
    scene.sql("UPDATE router.grey_queue SET state = 'Dismissed'").await;
    assert_eq!(purge().await.expect("answered")[0].why, None);
    // A dead letter that is closed is no event any more.
    let id = kept_for(&scene, "dead letter").await;
    scene.sql("UPDATE router.dead_letters SET discarded_at = now(), actor = 'z', reason_closed = 'r'; UPDATE router.grey_queue SET state = 'Dismissed' WHERE closed_at IS NULL").await;
    let purged = scene.store.purge(&[id], Authority::Retention, "gc", None).await.expect("answered");
    assert_eq!(purged[0].why, None);
}

/// Point 12: a crowd of every kind, and those that are due among them.
#[tokio::test]
async fn of_a_crowd_only_the_due_are_emptied() {
    let scene = Scene::new().await;
    let (mut kept, mut due) = (Vec::new(), Vec::new());
    for (case, _) in CASES {
        kept.push(kept_for(&scene, case).await);
        due.push(scene.routed().await);
    }
    // Each kind five hundred times more: the rows as they are, under other ids.
    let many = 10_000 / CASES.len();
    scene
        .sql(&format!(
            "SET session_replication_role = replica;
             CREATE TABLE copies AS SELECT s.id AS was, gen_random_uuid() AS id, s.form_id, s.status, s.routing_result, s.retention_expires_at, s.created_at
               FROM submissions s, generate_series(1, {many}) WHERE s.id = ANY ('{{{}}}');
             INSERT INTO submissions (id, form_id, status, routing_result, retention_expires_at, created_at)
               SELECT id, form_id, status, routing_result, retention_expires_at, created_at FROM copies;
             INSERT INTO submission_fields (submission_id, field_key, field_value) SELECT id, 'email', 'x' FROM copies;
             INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
               SELECT c.id, a.file_name, a.gcs_bucket, 'copy-' || c.id, a.clamav_status FROM copies c JOIN attachments a ON a.submission_id = c.was;
             INSERT INTO content.holds (scope, value, reason, actor) SELECT h.scope, c.id::text, h.reason, h.actor FROM copies c JOIN content.holds h ON h.value = c.was::text;
             INSERT INTO router.grey_queue (cause, reason, subject_kind, subject_id, queue) SELECT g.cause, g.reason, g.subject_kind, c.id, g.queue FROM copies c JOIN router.grey_queue g ON g.subject_id = c.was;
             INSERT INTO content.uploads (id, form_id, owner, submission_id, idempotency_key, request_digest, token_sha256, file_name, content_type, length,
               part_size, planned_blob, expires_at, unattached_ttl)
               SELECT gen_random_uuid(), 'f', 'zoe', c.id, c.id::text, u.request_digest, u.token_sha256, u.file_name, u.content_type, u.length, u.part_size,
               gen_random_uuid(), u.expires_at, u.unattached_ttl FROM copies c JOIN content.uploads u ON u.submission_id = c.was;
             INSERT INTO router.outbox (kind, entity_id, payload) SELECT o.kind, c.id, o.payload FROM copies c JOIN router.outbox o ON o.entity_id = c.was AND o.state IN ('pending', 'dead_letter');
             SET session_replication_role = DEFAULT",
            kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        ))
        .await;
    let before: i64 = scene.one("SELECT count(*) FROM copies").await;
    assert!(before >= 9_900, "{before}");
    let counts = scene.run().await;
    assert_eq!(counts.purged, CASES.len() as u64, "{counts:?}");
    for id in &due {
        assert_eq!(scene.status(*id).await, "purged");
    }
    let lost: i64 = scene
        .one("SELECT count(*) FROM submissions s JOIN copies c ON c.id = s.id WHERE s.status = 'purged'")
        .await;
    let fields: i64 =
        scene.one("SELECT count(*) FROM submission_fields f JOIN copies c ON c.id = f.submission_id").await;
    assert_eq!((lost, fields), (0, before));
    for id in &kept {
        assert_ne!(scene.status(*id).await, "purged");
    }
}
