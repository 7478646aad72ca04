//! Erasure: the time does not count, everything else does; no byte of the person is left in rows or bucket, and each object has a receipt.

use maple_router::retention::store::submissions::Authority;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{CONTENT, Scene};

#[tokio::test]
async fn no_byte_of_a_person_is_left_in_rows_or_bucket() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    scene
        .sql(&format!(
            "UPDATE submissions SET created_at = now(), happyfox_ticket_id = '4711' WHERE id = '{id}'"
        ))
        .await;
    scene.attach(id, "zoe-cv").await;
    let erasable = scene.store.erasable(id, Authority::Erasure).await.expect("answered").expect("there");
    assert_eq!((erasable.fields, erasable.files, erasable.mails, erasable.shared), (2, 1, 1, 0));
    assert_eq!((erasable.ticket.as_deref(), erasable.why), (Some("4711"), None));
    // The upload's row names the file as well.
    let upload = Uuid::new_v4();
    scene
        .sql(&format!(
            "INSERT INTO content.uploads (id, form_id, owner, submission_id, idempotency_key, request_digest, token_sha256, file_name, content_type, length,
               part_size, planned_blob, expires_at, unattached_ttl)
             VALUES ('{upload}', 'f', 'zoe', '{id}', 'k', sha256('r'), sha256('t'), 'zoe.pdf', 'text/plain', 1, 8388608, gen_random_uuid(), now() + interval '1 h', '1 h');
             UPDATE content.uploads SET state = 'aborted', problem = '{{}}' WHERE id = '{upload}'"
        ))
        .await;
    // Long graces do not count.
    let mut collector = scene.collector();
    collector.grace = std::time::Duration::from_secs(86_400);
    collector.run(&CancellationToken::new()).await.expect("a run");
    assert_eq!(scene.status(id).await, "routed", "its time has not come");
    let purged = scene.store.purge(&[id], Authority::Erasure, "zoe", None).await.expect("answered");
    assert_eq!(purged[0].why, None);
    collector.run(&CancellationToken::new()).await.expect("a run");
    assert!(scene.google.objects(CONTENT).is_empty());
    assert_eq!(scene.google.soft_deleted(CONTENT).len(), 1, "until the store's own time is up");
    // Every column of every table.
    let tables = scene
        .eyes
        .query(
            "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relkind = 'r' AND n.nspname IN ('public', 'router', 'content')",
            &[],
        )
        .await
        .expect("tables");
    for table in &tables {
        let table: &str = table.get(0);
        for word in ["zoe@", "a@example.org", "secret words", "zoe.pdf", "4711"] {
            let found: i64 =
                scene.one(&format!("SELECT count(*) FROM {table} t WHERE t::text ILIKE '%{word}%'")).await;
            // The receipt names the ticket, so that somebody can remove it there.
            let expected = i64::from(table == "content.receipts" && word == "4711");
            assert_eq!(found, expected, "{word} in {table}");
        }
    }
    let blob: Uuid = scene.one("SELECT id FROM content.blobs").await;
    assert_eq!(scene.receipts(id).await, ["erased"]);
    assert_eq!(scene.receipts(blob).await, ["object_deleted"]);
    let until: Option<std::time::SystemTime> = scene.one("SELECT restorable_until FROM content.blobs").await;
    assert!(
        until.is_some_and(|until| until > std::time::SystemTime::now()),
        "the receipt says until when the store could bring it back"
    );
}

#[tokio::test]
async fn submissions_are_found_by_a_field_whatever_the_case_of_its_letters() {
    let scene = Scene::new().await;
    let (one, two, other) = (scene.routed().await, scene.routed().await, scene.routed().await);
    scene.sql(&format!("UPDATE submission_fields SET field_value = ' zoe@EXAMPLE.org ' WHERE submission_id = '{two}' AND field_key = 'email'")).await;
    scene.sql(&format!("UPDATE submission_fields SET field_value = 'zoe@example.org.uk' WHERE submission_id = '{other}' AND field_key = 'email'")).await;
    let mut expected = vec![one, two];
    expected.sort();
    let found = |behind, most| scene.store.with_field("email", "zoe@example.org", behind, most);
    assert_eq!(found(Uuid::nil(), 10).await.expect("answered"), expected);
    assert_eq!(found(Uuid::nil(), 1).await.expect("answered"), expected[..1]);
    assert_eq!(found(expected[0], 10).await.expect("answered"), expected[1..]);
    assert!(
        scene
            .store
            .with_field("text", "zoe@example.org", Uuid::nil(), 10)
            .await
            .expect("answered")
            .is_empty()
    );
}

/// Only what was never claimed.
#[tokio::test]
async fn what_was_never_claimed_can_be_abandoned() {
    let scene = Scene::new().await;
    let (begun, claimed, routed) = (scene.received().await, scene.received().await, scene.routed().await);
    scene.attach(begun, "a").await;
    scene.ended(claimed, "received", r#"{"v": 1, "attempts": 1}"#).await;
    let mut answers = Vec::new();
    for id in [begun, claimed, routed] {
        answers.push(
            scene.store.purge(&[id], Authority::Abandonment, "zoe", None).await.expect("answered")[0]
                .why
                .clone(),
        );
    }
    assert_eq!(answers, [None, Some("claimed".to_owned()), Some("claimed".to_owned())]);
    assert_eq!(scene.run().await.deleted, 1, "no grace");
    let again = scene
        .store
        .purge(&[begun, Uuid::nil()], Authority::Abandonment, "zoe", None)
        .await
        .expect("answered");
    let why = |id: Uuid| again.iter().find(|one| one.id == id).expect("answered").why.clone().expect("kept");
    assert_eq!((why(begun).as_str(), why(Uuid::nil()).as_str()), ("purged", "unknown"));
}
