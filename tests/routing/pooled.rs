//! Behind a real PgBouncer that pools transactions, with three sessions for two routers, and restarted under load:
//! everything is routed, and no statement has a name.

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{Bouncer, PoolMode};
use devkit::stage::{Source, StageOptions};

use crate::harness::{Scene, binary, stage_of};

const SESSIONS: u32 = 3;
const SUBMISSIONS: usize = 200;

async fn behind_a_pool(source: Source) {
    let stage = stage_of(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")]).await;
    let mut bouncer =
        Bouncer::start(&stage.database, PoolMode::Transaction, SESSIONS).await.expect("a proxy");
    let unsaid = format!("[database]\nurl = \"{}\"", bouncer.url());
    let scene = Scene::on(stage, &unsaid).await;
    let said = format!("{unsaid}\npooling = \"transaction\"");
    let mut second = scene.stage.router(binary(), "second", &said).await.expect("a router");
    second.ready().await.expect("ready");

    let mut ids = Vec::new();
    for n in 0..SUBMISSIONS {
        if n == SUBMISSIONS / 3 || n == SUBMISSIONS * 2 / 3 {
            bouncer.restart().await.expect("restarted");
        }
        ids.push(scene.submit(&SubmissionSeed::of("f")).await.id);
    }
    for id in &ids {
        assert_eq!(scene.ended(*id).await.status, "routed", "{source:?}");
    }
    let config = scene.stage.dir().join("router.toml");
    let id = ids[0].to_string();
    for verb in [vec!["status"], vec!["list"], vec!["explain", &id], vec!["dlq", "list"]] {
        let answer = scene.stage.ask(binary(), &config, &verb).await.expect("an answer");
        assert_eq!(answer.code, Some(0), "{verb:?}: {answer:?}");
    }
    for router in [&scene.router, &second] {
        let log = router.log();
        for code in ["08P01", "0A000", "26000", "42P05", "XX000"] {
            assert!(!log.contains(&format!("SQLSTATE {code}")), "{source:?}: {code}: {log}");
        }
    }
    assert!(scene.router.log().contains("pools transactions"), "it was found out");
    let named = bouncer
        .each_answers(
            SESSIONS as usize,
            "SELECT count(*), string_agg(statement, '; ') FROM pg_prepared_statements",
        )
        .await
        .expect("each session");
    assert_eq!(named, vec![vec![Some("0".to_owned()), None]; SESSIONS as usize], "{source:?}");
    assert!(second.stop().await.expect("it ends").success());
    scene.stop().await;
}

#[tokio::test]
async fn the_outbox_behind_a_pool_of_transactions() {
    behind_a_pool(Source::Postgres).await;
}

#[tokio::test]
async fn pubsub_behind_a_pool_of_transactions() {
    behind_a_pool(Source::Pubsub).await;
}
