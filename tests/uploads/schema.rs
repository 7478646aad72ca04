//! What holds whoever writes: each guard of schema content is tried by the role that would break it.

use devkit::postgres::{Cluster, TestDatabase, Variant};
use std::sync::Arc;

use maple_router::config::Database;
use maple_router::db::migrations::CONTENT;
use maple_router::db::migrations::online::{self, FinalizedColumn, Patience};
use maple_router::db::{Pool, PoolOptions};
use maple_router::ops::clock::SystemClock;
use maple_router::uploads::store::UploadStore;
use tokio_postgres::Client;
use uuid::Uuid;

const WITH_CONTENT: Variant = Variant {
    audit_readable: false,
    with_011: true,
    router: true,
    content: true,
    screening: false,
    grading: false,
};

struct Scene {
    db: TestDatabase,
    app: Client,
}

impl Scene {
    async fn new() -> Self {
        let cluster = Cluster::shared().await.expect("a cluster");
        let db = cluster.database(WITH_CONTENT).await.expect("a database");
        db.alter("INSERT INTO forms (id, name) VALUES ('f', 'F'), ('g', 'G')").await.expect("forms");
        let app = db.client_as("forms_app").await.expect("forms_app");
        Self { db, app }
    }

    /// A session of ten bytes.
    async fn session(&self) -> Uuid {
        self.session_of("f", "o").await
    }

    async fn session_of(&self, form: &str, owner: &str) -> Uuid {
        let id = Uuid::new_v4();
        let sql = format!(
            "INSERT INTO content.uploads (id, form_id, owner, idempotency_key, request_digest, token_sha256, file_name, content_type,
               length, part_size, planned_blob, expires_at, unattached_ttl)
             VALUES ('{id}', '{form}', '{owner}', '{id}', sha256('r'), sha256('t'), 'a.pdf', 'application/pdf', 10, 8388608, '{}',
               now() + interval '1 day', '2 days');
             INSERT INTO content.staging (bucket, object, upload_id, role) VALUES ('s', 'staging/{id}', '{id}', 'session')",
            Uuid::new_v4()
        );
        self.app.batch_execute(&sql).await.expect("a session");
        id
    }

    /// The same with all parts there.
    async fn pending(&self) -> Uuid {
        let id = self.session().await;
        self.pend(id, "x").await;
        id
    }

    async fn pend(&self, id: Uuid, content: &str) {
        self.app
            .batch_execute(&format!(
                "UPDATE content.uploads SET state = 'parts_uploading', store_upload_id = 'u' WHERE id = '{id}';
                 UPDATE content.uploads SET state = 'pending_commit', etags = '[]', sha256 = sha256('{content}') WHERE id = '{id}';
                 INSERT INTO content.staging (bucket, object, upload_id, role) VALUES ('c', 'blobs/{id}', '{id}', 'blob')"
            ))
            .await
            .expect("pending");
    }

    /// Commits with what was found.
    async fn commit(&self, id: Uuid, content: &str, length: u64, verdict: &str) -> Result<u64, String> {
        let sql = format!(
            "UPDATE content.uploads SET state = 'committed', found = jsonb_build_object('sha256', encode(sha256('{content}'), 'hex'),
               'length', {length}, 'crc32c', 1, 'generation', 7, 'verdict', '{verdict}') WHERE id = '{id}'"
        );
        self.run(&sql).await
    }

    async fn committed(&self, verdict: &str) -> Uuid {
        let id = self.pending().await;
        self.commit(id, "x", 10, verdict).await.expect("committed");
        id
    }

    async fn run(&self, sql: &str) -> Result<u64, String> {
        self.app.execute(sql, &[]).await.map_err(|error| said(&error))
    }

    async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.app.query_one(sql, &[]).await.expect(sql).get(0)
    }

    async fn submission(&self, form: &str) -> Uuid {
        let sql = format!("INSERT INTO submissions (form_id) VALUES ('{form}') RETURNING id");
        self.one(&sql).await
    }

    async fn attach(&self, upload: Uuid, submission: Uuid) -> Result<Uuid, String> {
        let row = self.app.query_one("SELECT content.attach($1, $2)", &[&upload, &submission]).await;
        row.map(|row| row.get(0)).map_err(|error| said(&error))
    }
}

fn said(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |said| format!("{} {}", said.code().code(), said.message()))
}

#[tokio::test]
async fn what_is_committed_was_proven_and_has_its_blob_and_reference() {
    let scene = Scene::new().await;
    let id = scene.pending().await;
    for (content, length) in [("y", 10), ("x", 9)] {
        let refused = scene.commit(id, content, length, "clean").await.expect_err("not what was declared");
        assert!(refused.contains("was not proven"), "{refused}");
    }
    let bare = format!("UPDATE content.uploads SET state = 'committed' WHERE id = '{id}'");
    assert!(scene.run(&bare).await.expect_err("nothing was found").contains("was not proven"));
    assert_eq!(scene.commit(id, "x", 10, "clean").await, Ok(1));
    let kept: (String, String, i64, i64) = {
        let row = scene
            .app
            .query_one(
                "SELECT b.bucket, b.object, b.generation, (SELECT count(*) FROM content.blob_refs r WHERE r.blob_id = b.id
                   AND r.kind = 'upload' AND r.holder = u.id::text) FROM content.uploads u JOIN content.blobs b ON b.id = u.blob_id
                 WHERE u.id = $1 AND b.id = u.planned_blob AND b.verdict = 'clean'",
                &[&id],
            )
            .await
            .expect("a blob");
        (row.get(0), row.get(1), row.get(2), row.get(3))
    };
    assert_eq!(kept, ("c".to_owned(), format!("blobs/{id}"), 7, 1));
    let due: Vec<String> = {
        let sql = "SELECT role FROM content.staging WHERE upload_id = $1 AND due_at IS NOT NULL";
        scene.app.query(sql, &[&id]).await.expect("staging").iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(due, ["session"], "the final object is the blob's now");
}

#[tokio::test]
async fn the_same_bytes_of_one_owner_are_one_blob() {
    let scene = Scene::new().await;
    let first = scene.committed("clean").await;
    let second = scene.committed("clean").await;
    let (blobs, refs): (i64, i64) = {
        let sql = "SELECT count(DISTINCT u.blob_id), (SELECT count(*) FROM content.blob_refs) FROM content.uploads u WHERE u.id = ANY($1)";
        let row = scene.app.query_one(sql, &[&vec![first, second]]).await.expect("counted");
        (row.get(0), row.get(1))
    };
    assert_eq!((blobs, refs), (1, 2));
    let due: i64 = scene
        .one(&format!(
            "SELECT count(*) FROM content.staging WHERE upload_id = '{second}' AND due_at IS NOT NULL"
        ))
        .await;
    assert_eq!(due, 2, "its own final object is due as well");
    let other = scene.session_of("f", "another").await;
    scene.pend(other, "x").await;
    scene.commit(other, "x", 10, "clean").await.expect("committed");
    assert_eq!(
        scene.one::<i64>("SELECT count(*) FROM content.blobs").await,
        2,
        "another owner's are another blob"
    );
}

#[tokio::test]
async fn what_was_declared_and_what_has_ended_does_not_change() {
    let scene = Scene::new().await;
    let id = scene.pending().await;
    for change in [
        "length = 11",
        "form_id = 'g'",
        "owner = 'p'",
        "sha256 = sha256('y')",
        "store_upload_id = 'v'",
        "etags = '[1]'",
        "planned_blob = gen_random_uuid()",
        "token_sha256 = sha256('u')",
        "part_size = 9388608",
    ] {
        let refused = scene.run(&format!("UPDATE content.uploads SET {change} WHERE id = '{id}'")).await;
        assert!(
            refused.as_ref().is_err_and(|said| said.contains("does not change")),
            "{change}: {refused:?}"
        );
    }
    for state in ["initiated", "parts_uploading"] {
        let refused =
            scene.run(&format!("UPDATE content.uploads SET state = '{state}' WHERE id = '{id}'")).await;
        assert!(refused.as_ref().is_err_and(|said| said.contains("no way from")), "{state}: {refused:?}");
    }
    let aborted = format!("UPDATE content.uploads SET state = 'aborted' WHERE id = '{id}'");
    assert_eq!(scene.run(&aborted).await, Ok(1));
    let problem: String =
        scene.one(&format!("SELECT problem->>'code' FROM content.uploads WHERE id = '{id}'")).await;
    assert_eq!(problem, "expired", "a timer ends it without words");
    for state in ["initiated", "pending_commit", "committed"] {
        let refused =
            scene.run(&format!("UPDATE content.uploads SET state = '{state}' WHERE id = '{id}'")).await;
        assert!(refused.as_ref().is_err_and(|said| said.contains("has ended")), "{state}: {refused:?}");
    }
    let born = scene
        .run(
            "INSERT INTO content.uploads (id, form_id, owner, idempotency_key, request_digest, token_sha256, file_name, content_type, length,
               part_size, planned_blob, expires_at, unattached_ttl, state, ended_at, problem)
             VALUES (gen_random_uuid(), 'f', 'o', 'k', sha256('r'), sha256('t'), 'a', 'a/b', 1, 8388608, gen_random_uuid(), now(), '1 day',
               'aborted', now(), '{}')",
        )
        .await;
    assert!(born.as_ref().is_err_and(|said| said.contains("born initiated")), "{born:?}");
}

#[tokio::test]
async fn a_blob_is_made_and_judged_by_nobody_but_the_schemas_functions() {
    let scene = Scene::new().await;
    let id = scene.committed("unscanned").await;
    let blob: Uuid = scene.one(&format!("SELECT blob_id FROM content.uploads WHERE id = '{id}'")).await;
    for sql in [
        "INSERT INTO content.blobs (id, form_id, owner, sha256, length, crc32c, bucket, object, generation, scan_due_at)
           VALUES (gen_random_uuid(), 'f', 'o', sha256('z'), 1, 1, 'c', 'z', 1, now())"
            .to_owned(),
        format!("UPDATE content.blobs SET verdict = 'clean', scanned_at = now() WHERE id = '{blob}'"),
        format!("UPDATE content.blobs SET state = 'deleted' WHERE id = '{blob}'"),
        format!("DELETE FROM content.blobs WHERE id = '{blob}'"),
        format!("INSERT INTO content.blob_refs (blob_id, kind, holder) VALUES ('{blob}', 'attachment', 'x')"),
        format!("DELETE FROM content.uploads WHERE id = '{id}'"),
    ] {
        let refused = scene.run(&sql).await.expect_err(&sql);
        assert!(refused.starts_with("42501"), "{sql}: {refused}");
    }
    for role in ["forms_loader"] {
        let other = scene.db.client_as(role).await.expect(role);
        let refused = other.execute("SELECT content.record_verdict($1, 'clean', NULL, NULL)", &[&blob]).await;
        assert!(refused.is_err_and(|error| said(&error).starts_with("42501")), "{role}");
    }
    let owner = scene.db.owner().await.expect("the owner");
    for change in ["length = 11", "sha256 = sha256('y')", "object = 'o'", "generation = 8", "crc32c = 2"] {
        let refused =
            owner.execute(&format!("UPDATE content.blobs SET {change} WHERE id = '{blob}'"), &[]).await;
        assert!(
            refused.is_err_and(|error| said(&error).contains("does not change")),
            "{change}: even for the owner"
        );
    }
}

#[tokio::test]
async fn a_verdict_reaches_every_attachment_that_waits_for_it_and_infected_is_final() {
    let scene = Scene::new().await;
    let (first, second) = (scene.committed("unscanned").await, scene.committed("unscanned").await);
    let blob: Uuid = scene.one(&format!("SELECT blob_id FROM content.uploads WHERE id = '{first}'")).await;
    let (a, b) = (scene.submission("f").await, scene.submission("f").await);
    let (x, y) =
        (scene.attach(first, a).await.expect("attached"), scene.attach(second, b).await.expect("attached"));
    let told = |verdict: &'static str| {
        let scene = &scene;
        async move {
            let sql = "SELECT content.record_verdict($1, $2, 'n', 's')";
            let told: i64 = scene.app.query_one(sql, &[&blob, &verdict]).await.expect(verdict).get(0);
            let sql = "SELECT clamav_status::text FROM attachments WHERE id = ANY($1) ORDER BY id = $2";
            let rows = scene.app.query(sql, &[&vec![x, y], &y]).await.expect("attachments");
            (told, rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>())
        }
    };
    assert_eq!(told("unscannable").await, (0, vec!["pending".to_owned(); 2]), "it waits for somebody");
    assert_eq!(told("clean").await, (2, vec!["clean".to_owned(); 2]));
    assert_eq!(told("unscannable").await.1, vec!["clean".to_owned(); 2], "doubt takes nothing back");
    assert_eq!(told("infected").await, (2, vec!["infected".to_owned(); 2]));
    assert_eq!(told("clean").await, (0, vec!["infected".to_owned(); 2]), "infected is final");
    let unscanned = scene
        .app
        .query_one("SELECT content.record_verdict($1, 'unscanned', NULL, NULL)", &[&Uuid::nil()])
        .await;
    assert_eq!(unscanned.expect("nobody's").get::<_, i64>(0), 0);
}

#[tokio::test]
async fn what_cannot_be_judged_is_told_of_until_somebody_has_decided() {
    let scene = Scene::new().await;
    let pool = Pool::new(
        &Database { url: scene.db.url_as("forms_app"), ..Database::default() },
        PoolOptions::new(Arc::new(SystemClock)),
    );
    let store = UploadStore::new(pool.expect("a pool"), "test");
    let told = async || store.standing().await.expect("counted").unscannable;
    let id = scene.committed("unscannable").await;
    assert_eq!(told().await, 1, "nobody has attached it yet");
    let submission = scene.submission("f").await;
    let attachment = scene.attach(id, submission).await.expect("attached");
    assert_eq!(told().await, 1, "its submission waits");
    let owner = scene.db.owner().await.expect("the owner");
    let decided = "UPDATE attachments SET clamav_status = 'clean' WHERE id = $1";
    owner.execute(decided, &[&attachment]).await.expect("decided");
    assert_eq!(told().await, 0, "somebody has decided");
}

#[tokio::test]
async fn an_attachment_is_one_of_an_open_submission_of_the_same_form() {
    let scene = Scene::new().await;
    let (pending, done) = (scene.pending().await, scene.committed("infected").await);
    let (open, other_form) = (scene.submission("f").await, scene.submission("g").await);
    for (upload, submission, code) in [
        (Uuid::nil(), open, "MU001"),
        (done, Uuid::nil(), "MU001"),
        (pending, open, "MU002"),
        (done, other_form, "MU003"),
    ] {
        let refused = scene.attach(upload, submission).await.expect_err(code);
        assert!(refused.starts_with(code), "{refused}");
    }
    let closed = scene.submission("f").await;
    let owner = scene.db.owner().await.expect("the owner");
    let sql = format!("UPDATE submissions SET routing_result = '{{\"v\": 1}}' WHERE id = '{closed}'");
    owner.batch_execute(&sql).await.expect("claimed once");
    assert!(scene.attach(done, closed).await.expect_err("closed").starts_with("MU004"));
    let made = scene.attach(done, open).await.expect("attached");
    assert_eq!(scene.attach(done, open).await, Ok(made), "asked twice, it is one");
    assert!(scene.attach(done, closed).await.expect_err("another").starts_with("MU003"));
    let row: (String, i64, String) = {
        let sql = "SELECT file_name, size_bytes, clamav_status::text FROM attachments WHERE id = $1";
        let row = scene.app.query_one(sql, &[&made]).await.expect("an attachment");
        (row.get(0), row.get(1), row.get(2))
    };
    assert_eq!(row, ("a.pdf".to_owned(), 10, "infected".to_owned()), "born with its verdict");
    let kinds: Vec<String> = {
        let sql = "SELECT r.kind FROM content.blob_refs r WHERE r.holder = ANY($1)";
        let holders = vec![made.to_string(), done.to_string()];
        scene.app.query(sql, &[&holders]).await.expect("references").iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(kinds, ["attachment"], "the upload's reference has become the attachment's");
    let late = scene.committed("clean").await;
    scene
        .run(&format!("DELETE FROM content.blob_refs WHERE holder = '{late}'"))
        .await
        .expect("its time is over");
    assert!(scene.attach(late, open).await.expect_err("late").starts_with("MU005"));
}

#[tokio::test]
async fn the_last_reference_gone_the_blob_is_a_candidate_and_a_new_one_brings_it_back() {
    let scene = Scene::new().await;
    let id = scene.committed("clean").await;
    let submission = scene.submission("f").await;
    let attachment = scene.attach(id, submission).await.expect("attached");
    let state = async || -> String { scene.one("SELECT state FROM content.blobs").await };
    assert_eq!(state().await, "live");
    let owner = scene.db.owner().await.expect("the owner");
    owner
        .execute("DELETE FROM attachments WHERE id = $1", &[&attachment])
        .await
        .expect("removed by its owner");
    assert_eq!(state().await, "tombstoned");
    let again = scene.committed("clean").await;
    assert_eq!(state().await, "live", "the same bytes came again");
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.blobs").await, 1);
    scene
        .run(&format!("DELETE FROM content.blob_refs WHERE holder = '{again}'"))
        .await
        .expect("nobody attached it");
    assert_eq!(state().await, "tombstoned");
}

#[tokio::test]
async fn schema_content_comes_and_goes_and_its_attachments_stay() {
    let cluster = Cluster::shared().await.expect("a cluster");
    let db = cluster
        .database(Variant { router: false, content: false, ..WITH_CONTENT })
        .await
        .expect("a database");
    let mut owner = db.owner().await.expect("the owner");
    let patience = Patience::default();
    let silent = |_: &str| {};
    let early = online::migrate_upper(&mut owner, &CONTENT, patience, &silent)
        .await
        .expect_err("schema router is not there");
    assert!(early.to_string().contains("migrate --router first"), "{early}");
    online::migrate(&mut owner, &FinalizedColumn::Is(None), patience, &silent).await.expect("schema router");
    for _ in 0..2 {
        let applied = online::migrate_upper(&mut owner, &CONTENT, patience, &silent).await.expect("applied");
        assert_eq!(applied.len(), 3);
        assert!(
            online::migrate_upper(&mut owner, &CONTENT, patience, &silent).await.expect("again").is_empty()
        );
        let under =
            online::back(&mut owner, "002", true, patience, &silent).await.expect_err("content stands on it");
        assert!(under.to_string().contains("--content --back 001"), "{under}");
        online::back_upper(&mut owner, &CONTENT, "001", patience, &silent).await.expect("taken back");
    }
    let left: i64 = owner
        .query_one("SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace('content')", &[])
        .await
        .expect("functions")
        .get(0);
    assert_eq!(left, 0);
}
