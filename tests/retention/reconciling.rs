//! Bucket and rows, side by side: what differs is reported, and nothing is deleted.

use maple_router::retention::reconcile::{Compared, Difference};

use crate::harness::{CONTENT, Scene};

impl Scene {
    async fn compare(&self) -> (Compared, Vec<Difference>) {
        let (mut compared, mut found) = (Compared::default(), Vec::new());
        let report = |difference: Difference| found.push(difference);
        self.reconciler().bucket(CONTENT, &mut compared, report, |_| {}).await.expect("compared");
        (compared, found)
    }
}

#[tokio::test]
async fn unknown_missing_and_replaced_are_told_and_left_alone() {
    let scene = Scene::new().await;
    let id = scene.routed().await;
    // More than a page, and names whose order differs between bytes and letters.
    for n in 0..1_050 {
        scene.google.put_object(CONTENT, &format!("blobs/f/{n:05}"), "text/plain", "x");
    }
    scene
        .sql(&format!(
            "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
             SELECT '{id}', 'x', '{CONTENT}', 'blobs/f/' || lpad(n::text, 5, '0'), 'clean' FROM generate_series(0, 1049) n"
        ))
        .await;
    for name in ["B", "a", "Z/é", "z"] {
        scene.attach(id, name).await;
    }
    let (compared, found) = scene.compare().await;
    assert!(found.is_empty());
    assert_eq!((compared.objects, compared.rows), (1_054, 1_054));
    let missing: uuid::Uuid = scene.one("SELECT id FROM content.blobs WHERE object = 'blobs/f/00700'").await;
    let replaced: uuid::Uuid = scene.one("SELECT id FROM content.blobs WHERE object = 'B'").await;
    scene.sql("UPDATE content.blobs SET generation = 1 WHERE object = 'B'").await;
    scene.google.delete_object(CONTENT, "blobs/f/00700");
    scene.google.put_object(CONTENT, "somebody's", "text/plain", "seven b");
    // What a row names all the same: a copy of a recall that is under way, an object of uploads.
    scene.google.put_object(CONTENT, "blobs/f/planned", "text/plain", "x");
    scene.sql(&format!("INSERT INTO content.staging (bucket, object, upload_id, role) VALUES ('{CONTENT}', 'blobs/f/planned', gen_random_uuid(), 'blob')")).await;
    let before = scene.google.objects(CONTENT).len();
    let (compared, found) = scene.compare().await;
    assert_eq!((compared.unknown, compared.missing, compared.replaced), (1, 1, 1));
    assert!(found.iter().any(|one| matches!(one, Difference::Missing { blob } if *blob == missing)));
    assert!(found.iter().any(|one| matches!(one, Difference::Replaced { blob } if *blob == replaced)));
    let unknown = |one: &Difference| matches!(one, Difference::Unknown { object, length: 7, .. } if object == "somebody's");
    assert!(found.iter().any(unknown));
    assert_eq!(scene.google.objects(CONTENT).len(), before, "nothing is deleted");
}

/// What waits to be deleted, or goes at this moment, is no difference.
#[tokio::test]
async fn what_is_on_its_way_out_is_no_difference() {
    use devkit::google::{Act, Call, Rule, Stage};
    let scene = Scene::new().await;
    let id = scene.routed().await;
    scene.attach(id, "a").await;
    scene.google.rule(Rule::at(Stage::Before).call(Call::Delete).times(1).act(Act::Status(503)));
    drop(scene.collector().run(&tokio_util::sync::CancellationToken::new()).await);
    assert!(scene.is_there("a"));
    assert!(scene.compare().await.1.is_empty(), "owed, and there");
    scene.google.delete_object(CONTENT, "a");
    assert!(scene.compare().await.1.is_empty(), "owed, and gone");
}
