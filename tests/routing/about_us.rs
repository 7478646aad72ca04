//! Faults that are about us or the relay, not about a recipient: every one leaves the delivery open, says why in the
//! ledger, and ends well once the relay does. After the final dot the same faults are doubt.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Act, Rule, Stage as At};
use devkit::stage::StageOptions;

use crate::harness::Scene;

/// Timeouts short enough for a test; the inequalities of the protocol hold.
const SHORT: &str = "[smtp]
lanes = 1
connect_timeout = \"1s\"
command_timeout = \"1s\"
dot_timeout = \"2s\"
delivery_deadline = \"6s\"";

async fn scene() -> Scene {
    Scene::with(StageOptions::default(), &[Form::new("f").mail_to("a@x.test, b@x.test")], SHORT).await
}

/// Breaks every kept connection, so that the next send meets the rule at the front door.
async fn reconnect(scene: &Scene) {
    scene.stage.relay.stop().await;
    scene.stage.relay.restart().await.expect("the relay is back");
}

#[tokio::test]
async fn before_the_final_dot_the_deliveries_stay_open_and_nothing_is_sent_twice() {
    let scene = scene().await;
    let reply = |stage, line: &str| Rule::at(stage).reply(line);
    let table = [
        ("banner 554", reply(At::Banner, "554 5.3.2 no service"), "banner", Some(554)),
        ("banner 421", reply(At::Banner, "421 4.3.2 too busy"), "banner", Some(421)),
        ("banner silent", Rule::at(At::Banner).silence(), "banner", None),
        ("ehlo 550", reply(At::Ehlo, "550 5.7.1 who are you"), "EHLO", Some(550)),
        ("mail 550", reply(At::Mail, "550 5.7.1 sender rejected"), "MAIL", Some(550)),
        ("mail 452", reply(At::Mail, "452 4.3.1 disk full"), "MAIL", Some(452)),
        ("rcpt silent", Rule::at(At::Rcpt).silence(), "RCPT", None),
        (
            "data 421",
            Rule::at(At::Data).act(Act::ReplyThenClose("421 4.3.2 bye".to_owned())),
            "DATA",
            Some(421),
        ),
        ("data cut", Rule::at(At::Data).disconnect(), "DATA", None),
        ("data silent", Rule::at(At::Data).silence(), "DATA", None),
    ];
    for (name, rule, stage, code) in table {
        reconnect(&scene).await;
        scene.stage.relay.rule(rule);
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        let row = scene.await_row(id, "fault", |row| !row.entry("1|b@x.test")["error"].is_null()).await;
        for key in ["1|a@x.test", "1|b@x.test"] {
            let error = &row.entry(key)["error"];
            assert_eq!(row.entry(key)["state"], "open", "{name}: {row:?}");
            assert_eq!(row.entry(key)["doubt"], serde_json::Value::Null, "{name}: {row:?}");
            assert_eq!(
                (&error["class"], &error["stage"]),
                (&"deferred".into(), &stage.into()),
                "{name}: {row:?}"
            );
            assert_eq!(error["code"].as_u64(), code, "{name}: {row:?}");
        }
        assert_eq!(scene.audited(id).await, Vec::<String>::new(), "{name}: a deferral is not audited");
        scene.stage.relay.clear_rules();
        let row = scene.ended(id).await;
        assert_eq!(row.status, "routed", "{name}: {row:?}");
        // A fault that a probe met as well was an outage, which costs nobody an attempt.
        let outage = ["banner", "EHLO", "MAIL"].contains(&stage);
        assert!(if outage { row.attempts() == 1 } else { row.attempts() >= 2 }, "{name}: {row:?}");
        assert_eq!(scene.stage.relay.mails().len(), 1, "{name}: one mail for both");
        scene.stage.relay.forget();
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_message_the_relay_finds_too_large_at_mail_is_refused_for_good() {
    let scene = scene().await;
    scene.stage.relay.rule(Rule::at(At::Mail).reply("552 5.3.4 Message size exceeds fixed limit"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("refused"), 1),
        "{row:?}"
    );
    assert_eq!(row.entry("1|a@x.test")["error"]["stage"], "MAIL");
    scene.stop().await;
}

#[tokio::test]
async fn a_relay_that_is_down_defers_and_its_return_routes() {
    let scene = scene().await;
    scene.stage.relay.stop().await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.await_row(id, "fault", |row| !row.entry("1|a@x.test")["error"].is_null()).await;
    assert_eq!(row.entry("1|a@x.test")["error"]["stage"], "connect", "{row:?}");
    scene.stage.relay.restart().await.expect("the relay is back");
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    assert_eq!(scene.stage.relay.mails().len(), 1);
    scene.stop().await;
}

/// Lost, or silent, after the final dot: perhaps delivered. The mail goes again under the same Message-ID, and the
/// ledger explains the second copy.
#[tokio::test]
async fn after_the_final_dot_there_is_doubt_and_the_same_message_id_goes_again() {
    let scene = scene().await;
    let table = [
        ("stored, then cut", Rule::at(At::AfterDot).disconnect().times(1), 2),
        ("stored, then silent", Rule::at(At::AfterDot).silence().times(1), 2),
        ("cut before it is stored", Rule::at(At::Dot).disconnect().times(1), 1),
        ("an answer that is none", Rule::at(At::AfterDot).act(Act::Bytes(b"yes?\r\n".to_vec())).times(1), 2),
    ];
    for (name, rule, copies) in table {
        scene.stage.relay.rule(rule);
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        let row = scene.await_row(id, "doubt", |row| row.entry("1|a@x.test")["doubt"] == true).await;
        assert_eq!(row.entry("1|a@x.test")["error"]["class"], "unknown", "{name}: {row:?}");
        assert_eq!(row.entry("1|a@x.test")["state"], "open", "{name}: {row:?}");
        assert_eq!(
            scene.audited(id).await,
            Vec::<String>::new(),
            "{name}: nothing is known, nothing audited"
        );
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 2), "{name}: {row:?}");
        for key in ["1|a@x.test", "1|b@x.test"] {
            assert_eq!(row.entry(key)["doubted"], true, "{name}: {row:?}");
        }
        let mails = scene.stage.relay.mails();
        assert_eq!(mails.len(), copies, "{name}");
        assert!(mails.iter().all(|m| m.message_id == mails[0].message_id), "{name}: one Message-ID");
        let unknown = "maple_router_action_attempts_total{type=\"email_raw\",outcome=\"unknown\"}";
        assert!(scene.router.metric(unknown).await.expect("metrics").is_some_and(|n| n >= 2.0), "{name}");
        scene.stage.relay.forget();
        scene.stage.relay.clear_rules();
    }
    scene.stop().await;
}

/// A slow relay is not a lost one: nothing is given up before its time.
#[tokio::test]
async fn an_answer_just_in_time_is_an_answer() {
    let scene = scene().await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).delay(Duration::from_millis(600)));
    scene.stage.relay.rule(Rule::at(At::AfterDot).delay(Duration::from_millis(1200)));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    assert_eq!(row.entry("1|a@x.test")["doubted"], serde_json::Value::Null, "{row:?}");
    scene.stop().await;
}
