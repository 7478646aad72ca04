//! A database that takes no writes for a while is an outage like any other: reported once, nobody spends an
//! attempt, and it ends with itself, although every session that was opened meanwhile was born read-only.

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::Source;

use crate::harness::{Scene, binary, lines};

async fn read_only_spell(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    let before = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(before).await.status, "routed");
    let database = scene.stage.database.name();
    let switch = format!("ALTER DATABASE {database} SET default_transaction_read_only = on");
    scene.eyes.batch_execute(&switch).await.expect("read-only");
    scene.stage.database.disconnect("forms_app").await.expect("as in a failover");
    // Under load: sessions that were there before write on.
    let mut ids = Vec::new();
    for _ in 0..30 {
        let seeded = SubmissionSeed::of("f").insert(&scene.eyes).await.expect("a row");
        scene.stage.announce(seeded.id, "finalized").expect("published");
        ids.push(seeded.id);
    }
    let opened = scene.await_line("outage", |line| line["event"] == "breaker_open").await;
    assert_eq!(opened["dependency"], "postgres");
    // A router that starts meanwhile waits.
    let mut late = scene.stage.router(binary(), "late", "").await.expect("a router");
    scene.until("a start that waits", async || late.log().contains("takes no writes")).await;
    let reset = format!("ALTER DATABASE {database} RESET default_transaction_read_only");
    scene.eyes.batch_execute(&reset).await.expect("writable");
    for id in ids {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{source:?}: {row:?}");
    }
    late.ready().await.expect("ready");
    scene.await_line("end of the outage", |line| line["event"] == "breaker_closed").await;
    let count = |event: &str| lines(&scene.router).iter().filter(|line| line["event"] == event).count();
    assert_eq!((count("breaker_open"), count("breaker_closed")), (1, 1), "{}", scene.router.log());
    assert!(late.stop().await.expect("it ends").success());
    scene.stop().await;
}

#[tokio::test]
async fn a_read_only_spell_costs_nobody_an_attempt() {
    read_only_spell(Source::Pubsub).await;
}

#[tokio::test]
async fn a_read_only_spell_costs_nobody_an_attempt_beside_the_outbox() {
    read_only_spell(Source::Postgres).await;
}
