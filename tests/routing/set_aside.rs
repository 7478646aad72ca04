//! One row that refuses its writes, and a table altered under a running router: neither stops anybody (P9).

use devkit::forms::{Form, SubmissionSeed, scan};
use devkit::postgres::Refusing;
use devkit::stage::{Source, StageOptions};
use serde_json::Value;

use crate::harness::{Scene, lines};

const SOON: &str = "[slack]\ngroup_wait = \"1s\"";

async fn a_row_that_refuses_its_claim_stops_nobody_and_is_reported_once(source: Source) {
    for how in [Refusing::Trigger, Refusing::Silence, Refusing::Check] {
        let scene = Scene::with(StageOptions::of(source), &[Form::new("f").mail_to("a@x.test")], SOON).await;
        let odd = scene.submit(&SubmissionSeed::of("f").attachment("a.pdf", "pending")).await;
        scene.stage.database.refuse(how, &[odd.id]).await.expect("refused");
        scan(&scene.eyes, odd.attachments[0], "clean").await.expect("scanned");
        scene.stage.announce(odd.id, "scan").expect("published");
        let odd = odd.id;
        let mut others = Vec::new();
        for _ in 0..8 {
            others.push(scene.submit(&SubmissionSeed::of("f")).await.id);
        }
        for id in &others {
            assert_eq!(scene.ended(*id).await.status, "routed", "{how:?}");
        }
        let is_incident = |text: &str| text.contains("set aside, because the database refuses a write");
        let messages = || {
            let all = scene.stage.slack.messages();
            all.iter()
                .map(|message| message.visible_text().clone())
                .filter(|text| is_incident(text))
                .collect::<Vec<_>>()
        };
        scene.until("message", async || !messages().is_empty()).await;
        assert!(messages()[0].contains(&format!("maple-router explain {odd}")), "{:?}", messages());
        scene.stage.database.refuse(how, &[]).await.expect("mended");
        let row = scene.ended(odd).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{how:?}");
        let said = lines(&scene.router).into_iter().filter(|line| line["event"] == "set_aside").count();
        assert_eq!(said, 1, "{how:?}: {}", scene.router.log());
        scene.stop().await;
    }
}

/// Claims, intents and records are prepared when the table is altered.
async fn a_table_altered_under_a_running_router_is_met_by_nobody(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    let forms = ["varchar(200)", "text", "varchar(300)"];
    for kind in forms {
        for _ in 0..4 {
            let id = scene.submit(&SubmissionSeed::of("f")).await.id;
            assert_eq!(scene.ended(id).await.status, "routed");
        }
        // The plan of every claim reads these.
        let sql = format!(
            "ALTER TABLE forms ALTER name TYPE {kind}; ALTER TABLE templates ALTER subject TYPE {kind}"
        );
        scene.stage.database.alter(&sql).await.expect("altered");
    }
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1));
    // Logged as what it is, once an alteration, and as no fault.
    let about = |line: &Value| ["0A000", "26000", "XX000"].iter().any(|code| line.to_string().contains(code));
    let said: Vec<_> = lines(&scene.router).into_iter().filter(about).collect();
    assert!(said.len() <= forms.len() && said.iter().all(|line| line["level"] == "info"), "{said:?}");
    assert!(!scene.router.log().contains("nothing could be claimed"), "{}", scene.router.log());
    scene.stop().await;
}

devkit::with_either_source!(
    a_row_that_refuses_its_claim_stops_nobody_and_is_reported_once,
    a_table_altered_under_a_running_router_is_met_by_nobody,
);
