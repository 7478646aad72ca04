//! Recalls: every mailed link answers 404, the file stays, and links can be made anew; killed between any two steps it is gone on with.

use devkit::google::{Act, Call, Rule, Stage};
use maple_router::retention::recall::RecallError;
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
