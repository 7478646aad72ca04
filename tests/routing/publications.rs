//! Registries hear of what screening has published; the routing does not, to which it would be an event that it cannot read.

use devkit::broker::SubscriptionSpec;
use devkit::forms::Form;
use devkit::postgres::Variant;
use devkit::stage::{SUBSCRIPTION, Source, StageOptions};

use crate::harness::Scene;

const TOPIC: &str = "projects/demo/topics/skills";
const REGISTRY: &str = "projects/demo/subscriptions/registry";

/// What screening writes with a publication.
const PUBLICATION: &str = r#"INSERT INTO router.outbox (kind, payload)
VALUES ('screening.published', '{"skill_id": "github.com/owner/skill", "version": "1.0.0", "commit": "c"}')"#;

async fn scene(source: Source, extra: &str) -> Scene {
    let variant =
        Variant { router: true, content: true, screening: true, audit_readable: true, ..Variant::default() };
    let options = StageOptions { source, variant, ..StageOptions::default() };
    let scene = Scene::with(options, &[Form::new("f").mail_to("a@x.test")], extra).await;
    scene.eyes.batch_execute(PUBLICATION).await.expect("a publication");
    scene
}

/// The row's state, its claims, and whether somebody was told; what the routing set aside.
async fn settled(scene: &Scene) -> (String, i32, bool, i64) {
    const SEEN: &str =
        "SELECT o.state, o.claims, o.message_id IS NOT NULL, (SELECT count(*) FROM router.dead_letters)
FROM router.outbox o WHERE o.kind = 'screening.published'";
    scene
        .until("the publication is settled", async || {
            let row = scene.eyes.query_one(SEEN, &[]).await.expect("the row");
            ["delivered", "dead_letter"].contains(&row.get::<_, &str>(0))
        })
        .await;
    let row = scene.eyes.query_one(SEEN, &[]).await.expect("the row");
    (row.get(0), row.get(1), row.get(2), row.get(3))
}

#[tokio::test]
async fn a_publication_goes_to_the_registries_topic_alone() {
    let scene = scene(Source::Pubsub, "[screening.git]\ntopic = \"skills\"").await;
    scene.stage.broker.create_topic(TOPIC).expect("a topic");
    scene.stage.broker.create_subscription(SubscriptionSpec::new(REGISTRY, TOPIC)).expect("a registry");
    // The topic may have been missing at the first look: it is told later, and no attempt is spent.
    let (state, _, told, set_aside) = settled(&scene).await;
    assert_eq!((state.as_str(), told, set_aside), ("delivered", true, 0));
    assert_eq!(scene.stage.broker.stats(REGISTRY).expect("stats").backlog, 1);
    assert_eq!(
        scene.stage.broker.stats(SUBSCRIPTION).expect("stats").delivered,
        0,
        "no event of the routing"
    );
    scene.stop().await;
}

#[tokio::test]
async fn where_no_registry_listens_nobody_is_told_and_nothing_waits() {
    for source in [Source::Pubsub, Source::Postgres] {
        let scene = scene(source, "").await;
        assert_eq!(settled(&scene).await, ("delivered".to_owned(), 1, false, 0), "{source:?}");
        scene.stop().await;
    }
}
