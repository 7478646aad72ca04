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

/// One that no topic takes: a message has ten megabytes at most.
const TOO_LARGE: &str = "INSERT INTO router.outbox (kind, payload)
VALUES ('screening.published', jsonb_build_object('skill_id', repeat('x', 10000001)))";

async fn scene(source: Source, extra: &str, publication: &str) -> Scene {
    let variant =
        Variant { router: true, content: true, screening: true, audit_readable: true, ..Variant::default() };
    let options = StageOptions { source, variant, ..StageOptions::default() };
    let scene = Scene::with(options, &[Form::new("f").mail_to("a@x.test")], extra).await;
    scene.eyes.batch_execute(publication).await.expect("a publication");
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
    let scene = scene(Source::Pubsub, "[screening.git]\ntopic = \"skills\"", PUBLICATION).await;
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
        let scene = scene(source, "", PUBLICATION).await;
        assert_eq!(settled(&scene).await, ("delivered".to_owned(), 1, false, 0), "{source:?}");
        scene.stop().await;
    }
}

#[tokio::test]
async fn what_the_topic_refuses_is_given_up_on_and_a_person_is_told() {
    let scene = scene(Source::Pubsub, "[screening.git]\ntopic = \"skills\"", TOO_LARGE).await;
    scene.stage.broker.create_topic(TOPIC).expect("a topic");
    scene.stage.broker.create_subscription(SubscriptionSpec::new(REGISTRY, TOPIC)).expect("a registry");
    let (state, _, told, _) = settled(&scene).await;
    assert_eq!((state.as_str(), told), ("dead_letter", false));
    assert_eq!(scene.stage.broker.stats(REGISTRY).expect("stats").backlog, 0);
    let told = "SELECT count(*) FROM router.grey_queue WHERE cause = 'dead_letter'";
    let told: i64 = scene.eyes.query_one(told, &[]).await.expect("entries").get(0);
    assert_eq!(told, 1, "an entry of the review");
    scene.stop().await;
}
