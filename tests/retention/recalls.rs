//! Recalls: every mailed link answers 404, the file stays, and links can be made anew; killed between any two steps it is gone on with.

use devkit::google::{Act, Call, Rule, Stage};
use maple_router::retention::collector::RunError;
use maple_router::retention::recall::RecallError;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{CONTENT, Scene};

impl Scene {
    /// Carries the recall of a submission out, as far as it goes; whether it is done.
    async fn revoke(&self, submission: Uuid) -> Result<i64, RecallError> {
        let recalls = self.store.plan_recalls(submission, "infected", "zoe").await.expect("planned");
        let mut moved = 0;
        for recall in recalls {
            moved += self.recaller().carry_out(recall).await?;
        }
        Ok(moved)
    }

    async fn object_of(&self, submission: Uuid) -> String {
        self.one(&format!("SELECT gcs_object FROM attachments WHERE submission_id = '{submission}'")).await
    }
}

#[tokio::test]
async fn the_old_name_is_gone_and_everybody_goes_by_the_new_one() {
    let scene = Scene::new().await;
    let (one, two) = (scene.routed().await, scene.routed().await);
    let blob = scene.attach(one, "a").await;
    scene.name(two, "a").await;
    assert_eq!(scene.revoke(one).await.expect("done"), 2, "both go by the new name");
    assert!(!scene.is_there("a"));
    let name = scene.object_of(one).await;
    assert_eq!(scene.object_of(two).await, name);
    assert!(name.starts_with("recalled/f/"), "{name}");
    assert_eq!(scene.google.object_bytes(CONTENT, &name).expect("it stays"), b"a");
    assert_eq!(scene.state(blob).await, "live", "its references stay");
    assert!(scene.history(blob).await.is_empty(), "nothing happened to it but a name");
    assert_eq!(scene.receipts(blob).await, ["links_revoked"]);
    // Again: there is a name that was mailed since, perhaps.
    assert_eq!(scene.revoke(one).await.expect("done"), 2);
    assert_ne!(scene.object_of(one).await, name);
    // It goes the way of every other.
    scene.run().await;
    assert!(scene.google.objects(CONTENT).is_empty());
}

/// Each call of the store, before its effect and after it.
#[tokio::test]
async fn it_is_gone_on_with_wherever_it_broke_off() {
    for (call, stage) in [
        (Call::Metadata, Stage::Before),
        (Call::Rewrite, Stage::Before),
        (Call::Rewrite, Stage::After),
        (Call::Delete, Stage::Before),
        (Call::Delete, Stage::After),
    ] {
        let scene = Scene::new().await;
        let id = scene.routed().await;
        let blob = scene.attach(id, "a").await;
        scene.google.rule(Rule::at(stage).call(call).times(1).act(Act::Disconnect));
        scene.revoke(id).await.expect_err("it broke off");
        // Meanwhile nothing takes the object away, and it has a row.
        scene.sql(&format!("UPDATE submissions SET created_at = now() WHERE id = '{id}'")).await;
        let counts = scene.run().await;
        assert_eq!(counts.recalled, 1, "{call:?} {stage:?}: the next run goes on");
        assert!(!scene.is_there("a"), "{call:?} {stage:?}");
        let name = scene.object_of(id).await;
        assert_eq!(scene.google.objects(CONTENT).len(), 1, "{call:?} {stage:?}: no copy without a row");
        assert!(scene.is_there(&name), "{call:?} {stage:?}");
        assert_eq!(scene.receipts(blob).await, ["links_revoked"], "{call:?} {stage:?}");
    }
}

/// A name is never used again; should it be, what stands there is left alone.
#[tokio::test]
async fn another_object_of_that_name_is_left_alone() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    scene.attach(id, "a").await;
    let trapped = scene.google.trap(Rule::at(Stage::Before).call(Call::Delete));
    let (recaller, store) = (scene.recaller(), scene.store.clone());
    let revoking = tokio::spawn(async move {
        let recall = store.plan_recalls(id, "infected", "zoe").await.expect("planned").remove(0);
        recaller.carry_out(recall).await
    });
    trapped.hit(crate::harness::PATIENCE).await.expect("it deletes");
    scene.google.put_object(CONTENT, "a", "text/plain", "another");
    trapped.release();
    revoking.await.expect("no panic").expect("the links are dead");
    assert_eq!(scene.google.object_bytes(CONTENT, "a").expect("left"), b"another");
}

/// A blob whose links are being recalled is not collected, though its submission is emptied meanwhile.
#[tokio::test]
async fn what_is_being_recalled_is_not_swept() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    let blob = scene.attach(id, "a").await;
    scene.store.plan_recalls(id, "infected", "zoe").await.expect("planned");
    scene.google.rule(Rule::at(Stage::Before).call(Call::Rewrite).times(1).act(Act::Status(503)));
    let counts = scene.run().await;
    assert_eq!((counts.purged, counts.recalled, counts.deleted), (1, 0, 0), "{counts:?}");
    assert_eq!(scene.state(blob).await, "tombstoned");
    let counts = scene.run().await;
    assert_eq!((counts.recalled, counts.deleted), (1, 1), "first the recall, then the file");
    assert!(scene.google.objects(CONTENT).is_empty());
}

/// A store that is away ends the run, and not each of its recalls after the longest time; one recall that it refuses does not.
#[tokio::test]
async fn a_store_that_is_away_is_not_asked_for_every_recall() {
    let scene = Scene::new().await;
    for object in ["a", "b", "c", "d", "e"] {
        let id = scene.routed().await;
        scene.attach(id, object).await;
        scene.store.plan_recalls(id, "infected", "zoe").await.expect("planned");
    }
    let away = |times| Rule::at(Stage::Before).call(Call::Rewrite).times(times).act(Act::Status(503));
    scene.google.rule(away(1));
    assert_eq!(scene.run().await.recalled, 4, "the others are done");
    for object in ["f", "g", "h", "i", "j"] {
        let id = scene.routed().await;
        scene.attach(id, object).await;
        scene.store.plan_recalls(id, "infected", "zoe").await.expect("planned");
    }
    scene.google.rule(away(4));
    let ended = scene.collector().run(&CancellationToken::new()).await;
    assert!(matches!(ended, Err(RunError::Store(_))), "{ended:?}");
    assert_eq!(scene.store.open_recalls(10).await.expect("read").len(), 6, "none is done");
    // Three were asked for: the fourth is the next run's.
    assert_eq!(scene.run().await.recalled, 5);
    assert_eq!(scene.run().await.recalled, 1);
}

/// Recalls that the store refuses end no run, and do not hide that it is away by then.
#[tokio::test]
async fn refused_recalls_do_not_hide_that_the_store_is_away() {
    let scene = Scene::new().await;
    for object in ["a", "b", "c", "d", "e", "f"] {
        let id = scene.routed().await;
        scene.attach(id, object).await;
        scene.store.plan_recalls(id, "infected", "zoe").await.expect("planned");
    }
    let failing =
        |status, times| Rule::at(Stage::Before).call(Call::Rewrite).times(times).act(Act::Status(status));
    scene.google.rule(failing(400, 4));
    assert_eq!(scene.run().await.recalled, 2, "four that are refused stop nobody");
    for object in ["g", "h"] {
        let id = scene.routed().await;
        scene.attach(id, object).await;
        scene.store.plan_recalls(id, "infected", "zoe").await.expect("planned");
    }
    scene.google.rule(failing(400, 4));
    scene.google.rule(failing(503, 2));
    let ended = scene.collector().run(&CancellationToken::new()).await;
    assert!(matches!(ended, Err(RunError::Store(_))), "{ended:?}");
}

/// A name that was recalled is not used again: what is named by it would be deleted.
#[tokio::test]
async fn a_recalled_name_cannot_be_named_again() {
    let scene = Scene::new().await;
    let (id, other) = (scene.routed().await, scene.received().await);
    scene.attach(id, "a").await;
    scene.revoke(id).await.expect("done");
    let named = scene
        .eyes
        .execute(
            "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ($1, 'x', 'content', 'a')",
            &[&other],
        )
        .await;
    let error = named.expect_err("its links were recalled");
    assert_eq!(error.as_db_error().expect("said").code().code(), "23503");
}

/// Nothing to copy: the links are dead, and the recall keeps nothing from being collected.
#[tokio::test]
async fn a_recall_without_an_object_is_over() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    scene.attach(id, "a").await;
    scene.google.delete_object(CONTENT, "a");
    let none = scene.revoke(id).await.expect_err("there is nothing");
    assert!(matches!(none, RecallError::NoObject), "{none}");
    assert!(scene.store.open_recalls(10).await.expect("read").is_empty());
    // Overwritten after it was looked at: what was mailed is not there any more.
    scene.google.put_object(CONTENT, "a", "text/plain", "x");
    let recall = scene.store.plan_recalls(id, "infected", "zoe").await.expect("planned").remove(0);
    assert_eq!(scene.store.recall_seen(recall.id, 1).await.expect("written"), Some(1));
    assert_eq!(
        scene.store.recall_seen(recall.id, 2).await.expect("written"),
        Some(1),
        "the first look counts"
    );
    let none = scene.revoke(id).await.expect_err("another object is there");
    assert!(matches!(none, RecallError::NoObject), "{none}");
    assert!(scene.is_there("a"), "which is left alone");
    assert!(scene.store.open_recalls(10).await.expect("read").is_empty());
}

/// A file that two submissions share, whose recall was planned for the other one: it is this one's as well.
#[tokio::test]
async fn a_recall_under_way_is_gone_on_with_whichever_submission_is_named() {
    let scene = Scene::new().await;
    let (one, two) = (scene.routed().await, scene.routed().await);
    scene.attach(one, "a").await;
    scene.name(two, "a").await;
    scene.google.rule(Rule::at(Stage::Before).call(Call::Rewrite).times(1).act(Act::Status(503)));
    let away = scene.revoke(one).await.expect_err("it broke off");
    assert!(away.is_tried_again(), "{away}");
    assert_eq!(scene.revoke(two).await.expect("done"), 2);
    assert!(!scene.is_there("a"));
}
