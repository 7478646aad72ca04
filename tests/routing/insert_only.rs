//! The live database lets `forms_app` write the audit log and not read it: nothing here depends on reading it.

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::Variant;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::StageOptions;
use serde_json::json;

use crate::harness::Scene;

#[tokio::test]
async fn every_transition_works_where_the_audit_log_cannot_be_read() {
    let variant = Variant { audit_readable: false, ..Variant::default() };
    let forms = [
        Form::new("good").mail_to("a@good.test, b@good.test"),
        Form::new("refused").mail_to("a@refused.test, b@refused.test"),
        Form::new("spent").mail_to("a@spent.test"),
        Form::new("none"),
    ];
    let scene = Scene::with(StageOptions { variant, ..StageOptions::default() }, &forms, "").await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@refused.test").reply("550 5.1.1 no"));
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@spent.test").reply("451 4.3.0 no"));
    let of = SubmissionSeed::of;
    let table = [
        (of("good"), "routed", None, vec!["email_sent", "email_sent", "submission_routed"]),
        (
            of("refused"),
            "failed",
            Some("refused"),
            vec!["email_sent", "email_failed", "submission_route_failed"],
        ),
        (of("spent"), "failed", Some("exhausted"), vec!["email_failed", "submission_route_failed"]),
        (of("none"), "failed", Some("no_actions"), vec!["submission_route_failed"]),
        (of("good").attachment("a", "infected"), "failed", Some("infected"), vec!["submission_route_failed"]),
        (of("good").ledger(json!([])), "failed", Some("ledger_damaged"), vec!["submission_route_failed"]),
    ];
    let mut ids = Vec::new();
    for (seed, ..) in &table {
        ids.push(scene.submit(seed).await.id);
    }
    for ((_, status, reason, actions), id) in table.iter().zip(ids) {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.reason()), (*status, *reason), "{row:?}");
        assert_eq!(scene.audited(id).await, *actions, "{row:?}");
    }
    let seen: i64 =
        scene.backend.query_one("SELECT count(*) FROM audit_log", &[]).await.expect("count").get(0);
    assert_eq!(seen, 0, "the variant is what it says: forms_app sees an empty trail");
    scene.stop().await;
}
