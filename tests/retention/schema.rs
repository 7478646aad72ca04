//! The schema's guards, whoever writes: as the superuser, whom nothing but a trigger or a constraint stops.

use uuid::Uuid;

use crate::harness::{CONTENT, Scene};

impl Scene {
    /// The SQLSTATE of a statement that is refused.
    async fn refused(&self, sql: &str) -> String {
        let error = self.eyes.batch_execute(sql).await.expect_err(sql);
        error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}")).code().code().to_owned()
    }

    /// A run that sweeps, with this lease.
    async fn sweeping(&self, lease: &str) -> i64 {
        self.sql("UPDATE content.gc_runs SET state = 'done', ended_at = now() WHERE ended_at IS NULL").await;
        self.one(&format!(
            "INSERT INTO content.gc_runs (actor, lease_token, leased_until, state) VALUES ('x', gen_random_uuid(), now() + interval '{lease}', 'sweeping') RETURNING id"
        ))
        .await
    }

    /// A blob without a reference, marked by this run.
    async fn marked(&self, object: &str, run: i64) -> Uuid {
        let id = self.received().await;
        let blob = self.attach(id, object).await;
        self.sql(&format!("DELETE FROM attachments WHERE submission_id = '{id}'; UPDATE content.blobs SET deadline = now() - interval '1 s' WHERE id = '{blob}';
            UPDATE content.blobs SET state = 'eligible_for_gc', marked_run = {run} WHERE id = '{blob}'")).await;
        blob
    }
}

#[tokio::test]
async fn only_what_a_living_run_has_marked_and_nothing_needs_is_deleted() {
    let scene = Scene::new().await;
    let run = scene.sweeping("1 hour").await;
    let sweep = |blob: Uuid| format!("UPDATE content.blobs SET state = 'deleted' WHERE id = '{blob}'");
    // Marked by another run.
    let blob = scene.marked("a", run).await;
    let next = scene.sweeping("1 hour").await;
    assert_eq!(scene.refused(&sweep(blob)).await, "MG002");
    assert_eq!(
        scene
            .refused(&format!(
                "UPDATE content.blobs SET state = 'deleted', marked_run = {next} WHERE id = '{blob}'"
            ))
            .await,
        "MG002",
        "marked and swept at once"
    );
    // The run's lease is over, or it does not sweep yet.
    let late = scene.sweeping("-1 s").await;
    let blob = scene.marked("b", late).await;
    assert_eq!(scene.refused(&sweep(blob)).await, "MG002");
    let run = scene.sweeping("1 hour").await;
    scene.sql(&format!("UPDATE content.gc_runs SET state = 'marking' WHERE id = {run}")).await;
    let blob = scene.marked("c", run).await;
    assert_eq!(scene.refused(&sweep(blob)).await, "MG002");
    scene.sql(&format!("UPDATE content.gc_runs SET state = 'sweeping' WHERE id = {run}")).await;
    // Held; recalled.
    scene.sql(&format!("SELECT content.place_hold('blob', '{blob}', 'r', 'x')")).await;
    assert_eq!(scene.refused(&sweep(blob)).await, "MG004");
    scene.sql("SELECT content.release_hold(1, 'x', 'r')").await;
    scene
        .sql(&format!(
            "INSERT INTO content.recalls (id, blob_id, submission_id, bucket, old_object, new_object, reason, actor)
             VALUES (gen_random_uuid(), '{blob}', gen_random_uuid(), '{CONTENT}', 'c', 'n', 'r', 'x')"
        ))
        .await;
    assert_eq!(scene.refused(&sweep(blob)).await, "MG005");
    scene.sql("ALTER TABLE content.recalls DISABLE TRIGGER ALL; DELETE FROM content.recalls").await;
    // An attachment names it, and past every trigger has no reference.
    let id = scene.received().await;
    scene.sql(&format!("SET session_replication_role = replica;
        INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ('{id}', 'x', '{CONTENT}', 'c'); SET session_replication_role = DEFAULT")).await;
    assert_eq!(scene.refused(&sweep(blob)).await, "MG003");
    scene.sql(&format!("DELETE FROM attachments WHERE submission_id = '{id}'")).await;
    scene.sql(&sweep(blob)).await;
    // Final, and nobody names it again.
    assert_eq!(
        scene.refused(&format!("UPDATE content.blobs SET state = 'live' WHERE id = '{blob}'")).await,
        "23514"
    );
    assert_eq!(
        scene.refused(&format!("INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ('{id}', 'x', '{CONTENT}', 'c')")).await,
        "23503"
    );
}

#[tokio::test]
async fn a_blob_goes_no_way_that_its_lifecycle_has_not() {
    let scene = Scene::new().await;
    let id = scene.received().await;
    let blob = scene.attach(id, "a").await;
    let set = |what: &str| format!("UPDATE content.blobs SET {what} WHERE id = '{blob}'");
    for what in ["state = 'deleted', marked_run = NULL", "state = 'eligible_for_gc'", "state = 'deleted'"] {
        assert_eq!(scene.refused(&set(what)).await, "23514", "{what}");
    }
    assert_eq!(
        scene.refused(&set("state = 'tombstoned', deadline = now()")).await,
        "MG003",
        "something refers to it"
    );
    for what in [
        "form_id = 'g'",
        "bucket = 'x'",
        "object = 'x'",
        "sha256 = sha256('x')",
        "length = 7",
        "owner = 'x'",
        "origin = 'upload'",
        "gone_at = now()",
    ] {
        assert_eq!(scene.refused(&set(what)).await, "23514", "{what}");
    }
    scene.sql(&format!("DELETE FROM attachments WHERE submission_id = '{id}'")).await;
    scene.sql(&set("deadline = now() + interval '1 h'")).await;
    assert_eq!(
        scene.refused(&set("state = 'eligible_for_gc', marked_run = NULL")).await,
        "MG001",
        "its deadline has not passed"
    );
    let refusals: Vec<String> = vec![
        scene.refused("INSERT INTO content.retention (form_id, keep_routed, keep_failed, set_by) VALUES ('x', '23 hours', '1 y', 'x')").await,
        scene.refused("INSERT INTO content.gc_runs (actor, lease_token, leased_until) VALUES ('x', gen_random_uuid(), now()), ('y', gen_random_uuid(), now())").await,
        scene.refused("SELECT * FROM content.purge(ARRAY[gen_random_uuid()], 'because', 'x', NULL)").await,
    ];
    assert_eq!(refusals, ["23514", "23505", "23514"]);
}

/// An attachment and its object's blob belong together from birth, whatever a transaction can see.
#[tokio::test]
async fn two_who_name_one_object_at_the_same_moment_share_its_blob() {
    let scene = Scene::new().await;
    let (one, two) = (scene.received().await, scene.received().await);
    let insert = |id: Uuid| {
        format!(
            "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ('{id}', 'x', '{CONTENT}', 'a')"
        )
    };
    let mut first = scene.db.superuser().await.expect("a client");
    let tx = first.transaction().await.expect("begun");
    tx.batch_execute(&insert(one)).await.expect("named");
    // The second has a snapshot from before the first's commit.
    let second = scene.db.superuser().await.expect("a client");
    second
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM forms")
        .await
        .expect("begun");
    let naming = {
        let sql = insert(two);
        tokio::spawn(async move { second.batch_execute(&sql).await })
    };
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!naming.is_finished(), "it waits for the first");
    tx.commit().await.expect("committed");
    let error =
        naming.await.expect("no panic").expect_err("it cannot see the blob, so that it may not go on");
    assert_eq!(error.as_db_error().expect("said").code().code(), "40001");
    scene.sql(&insert(two)).await;
    let refs: i64 = scene.one("SELECT count(*) FROM content.blob_refs r JOIN content.blobs b ON b.id = r.blob_id WHERE b.object = 'a'").await;
    assert_eq!(refs, 2);
    // An attachment that gets another object takes its reference along.
    scene.sql(&format!("UPDATE attachments SET gcs_object = 'b' WHERE submission_id = '{one}'")).await;
    let refs: i64 = scene.one("SELECT count(*) FROM content.blob_refs r JOIN content.blobs b ON b.id = r.blob_id WHERE b.object = 'b'").await;
    assert_eq!(refs, 1);
}

/// Attachments that are older than the schema.
#[tokio::test]
async fn what_is_older_than_the_schema_gets_its_blob_before_it_goes() {
    let scene = Scene::new().await;
    let (one, two) = (scene.routed().await, scene.routed().await);
    scene.google.put_object(CONTENT, "old", "text/plain", "x");
    scene
        .sql(&format!(
            "SET session_replication_role = replica;
             INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status) VALUES ('{one}', 'x', '{CONTENT}', 'old', 'clean'), ('{two}', 'x', '{CONTENT}', 'old', 'clean');
             SET session_replication_role = DEFAULT"
        ))
        .await;
    scene.sql(&format!("UPDATE submissions SET created_at = now() WHERE id = '{two}'")).await;
    let counts = scene.run().await;
    assert_eq!((counts.purged, counts.deleted), (1, 0), "the other still has it");
    let refs: i64 = scene.one("SELECT count(*) FROM content.blob_refs").await;
    assert_eq!(refs, 1);
    scene
        .sql(&format!("UPDATE submissions SET created_at = now() - interval '2 y' WHERE id = '{two}'"))
        .await;
    assert_eq!(scene.run().await.deleted, 1);
}

/// Two erasures of submissions that share an object older than the schema: no reference is left of an attachment that went meanwhile.
#[tokio::test]
async fn no_reference_outlives_its_attachment() {
    let scene = Scene::new().await;
    let (one, two) = (scene.routed().await, scene.routed().await);
    scene
        .sql(&format!(
            "SET session_replication_role = replica;
             INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status) VALUES ('{one}', 'x', '{CONTENT}', 'old', 'clean'), ('{two}', 'x', '{CONTENT}', 'old', 'clean');
             SET session_replication_role = DEFAULT"
        ))
        .await;
    let mut first = scene.db.client_as("maple_gc").await.expect("a client");
    let tx = first.transaction().await.expect("begun");
    let purge = "SELECT * FROM content.purge(ARRAY[$1::uuid], 'erasure', 'gc', NULL)";
    tx.query(purge, &[&one]).await.expect("emptied");
    let second = scene.db.client_as("maple_gc").await.expect("a client");
    let purging = tokio::spawn(async move { second.query(purge, &[&two]).await });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    tx.commit().await.expect("committed");
    purging.await.expect("no panic").expect("emptied");
    let left: (i64, String) = (
        scene.one("SELECT count(*) FROM content.blob_refs").await,
        scene.one("SELECT state FROM content.blobs").await,
    );
    assert_eq!(left, (0, "tombstoned".to_owned()));
}

/// What is known of an object's generation is not written a second time.
#[tokio::test]
async fn a_generation_is_written_once() {
    let scene = Scene::new().await;
    let id = scene.received().await;
    let blob = scene.attach(id, "a").await;
    scene.sql(&format!("UPDATE content.blobs SET generation = 7 WHERE id = '{blob}'")).await;
    assert_eq!(
        scene.refused(&format!("UPDATE content.blobs SET generation = 8 WHERE id = '{blob}'")).await,
        "23514"
    );
}

/// A reference that is born while its blob is swept: the sweep waits for it, and leaves the blob. Without the references' trigger it
/// does not wait, cannot see it, and deletes what is referred to.
#[tokio::test]
async fn a_reference_that_is_born_while_its_blob_is_swept_is_seen() {
    for guarded in [true, false] {
        let scene = Scene::new().await;
        let run = scene.sweeping("1 hour").await;
        let blob = scene.marked("a", run).await;
        if !guarded {
            scene.sql("ALTER TABLE content.blob_refs DISABLE TRIGGER guard").await;
        }
        let mut uploader = scene.db.superuser().await.expect("a client");
        let tx = uploader.transaction().await.expect("begun");
        let refer = "INSERT INTO content.blob_refs (blob_id, kind, holder, until) VALUES ($1, 'upload', 'u', now() + interval '1 h')";
        tx.execute(refer, &[&blob]).await.expect("referred to");
        let sweeper = scene.db.superuser().await.expect("a client");
        let sweeping = tokio::spawn(async move {
            let sweep =
                "UPDATE content.blobs SET state = 'deleted' WHERE id = $1 AND state = 'eligible_for_gc'";
            sweeper.execute(sweep, &[&blob]).await
        });
        if guarded {
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            assert!(!sweeping.is_finished(), "it waits");
            tx.commit().await.expect("committed");
            assert_eq!(sweeping.await.expect("no panic").expect("answered"), 0);
        } else {
            assert_eq!(sweeping.await.expect("no panic").expect("answered"), 1);
            tx.commit().await.expect("committed");
        }
        let lost = "SELECT count(*) FROM content.blobs b JOIN content.blob_refs r ON r.blob_id = b.id WHERE b.state = 'deleted'";
        assert_eq!(scene.one::<i64>(lost).await, i64::from(!guarded));
    }
}

#[tokio::test]
async fn a_reference_waits_for_whoever_decides_about_its_blob() {
    let scene = Scene::new().await;
    let run = scene.sweeping("1 hour").await;
    let swept = scene.marked("a", run).await;
    let holder = scene.received().await;
    let left = scene.attach(holder, "b").await;
    let cases = [
        (swept, format!("UPDATE content.blobs SET state = 'deleted' WHERE id = '{swept}'"), "deleted"),
        (left, format!("DELETE FROM attachments WHERE submission_id = '{holder}'"), "live"),
    ];
    for (blob, decided, state) in cases {
        let refer = format!(
            "INSERT INTO content.blob_refs (blob_id, kind, holder, until) VALUES ('{blob}', 'upload', '{blob}', now() + interval '1 h')"
        );
        let mut decider = scene.db.superuser().await.expect("a client");
        let tx = decider.transaction().await.expect("begun");
        tx.batch_execute(&decided).await.expect("decided");
        let uploader = scene.db.superuser().await.expect("a client");
        let referring = tokio::spawn({
            let refer = refer.clone();
            async move { uploader.batch_execute(&refer).await }
        });
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        assert!(!referring.is_finished(), "it waits: {state}");
        tx.commit().await.expect("committed");
        let referred = referring.await.expect("no panic");
        assert_eq!(referred.is_ok(), state == "live", "{referred:?}");
        assert_eq!(
            scene.one::<String>(&format!("SELECT state FROM content.blobs WHERE id = '{blob}'")).await,
            state
        );
        if state == "deleted" {
            assert_eq!(scene.refused(&refer).await, "23503", "nor later");
        }
    }
}
