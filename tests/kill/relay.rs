//! Every fault of the relay at every stage, once each, to the real process: what the ledger says of it, that nothing is
//! lost, that a mail goes twice only where the relay may have had it, and that the process goes on.

use std::time::Duration;

use devkit::smtp::{Act, Rule, Stage as At};
use devkit::stage::Source;
use devkit::submission::Row;
use serde_json::Value;

use crate::harness::Scene;

/// Longer than the router waits for a command, and for the reply to the dot.
const TOO_LATE: Duration = Duration::from_millis(3_000);

/// Faults of the relay, at a stage of its own.
fn faults(stage: At) -> Vec<(&'static str, Rule)> {
    let at = || Rule::at(stage).times(1);
    vec![
        ("stalls", at().silence()),
        ("drops", at().disconnect()),
        ("speaks garbage", at().act(Act::Bytes(b"\x00\xff yes?\r\n".to_vec()))),
        ("answers late", at().delay(TOO_LATE)),
        ("is one reply ahead", at().act(Act::NormalThenBytes(b"250 2.0.0 Ok\r\n".to_vec()))),
        ("shuts down", at().act(Act::ReplyThenClose("421 4.3.2 shutting down".to_owned()))),
    ]
}

devkit::with_either_source!(every_fault_at_every_stage_is_recorded_and_survived);

async fn every_fault_at_every_stage_is_recorded_and_survived(source: Source) {
    use futures::StreamExt as _;
    let stages = [At::Banner, At::Ehlo, At::Mail, At::Rcpt, At::Data, At::Dot, At::AfterDot];
    let played = stages.map(|stage| faults_at(source, stage));
    futures::stream::iter(played).buffer_unordered(4).collect::<Vec<()>>().await;
}

async fn faults_at(source: Source, stage: At) {
    let mut scene = Scene::start(source, 1).await;
    for (name, rule) in faults(stage) {
        // The reply to the dot itself is at AfterDot; and a relay that stores a mail and says 421 has lied.
        if matches!((stage, name), (At::Dot, "is one reply ahead") | (At::AfterDot, "shuts down")) {
            continue;
        }
        // Every connection is closed, so that the next send comes by the front door.
        scene.stage.relay.stop().await;
        scene.stage.relay.restart().await.expect("the relay is back");
        scene.stage.relay.rule(rule);
        let id = scene.submit().await;
        // Between the stages an extra reply is met by the next command; behind the dot it is nobody's.
        let harmless = name == "is one reply ahead" && stage == At::AfterDot;
        if !harmless {
            let seen = scene.await_row(id, "fault", |row| has_error(row) || row.has_ended()).await;
            if !seen.has_ended() {
                error_is_right(&seen, stage, name);
            }
        }
        let row = scene.ended(id).await;
        assert_eq!(row.status, "routed", "{stage:?} {name}: {row:?}");
        assert!(row.attempts() <= 2, "{stage:?} {name}: {row:?}");
        let (copies, doubted) = expected(stage, name, harmless);
        assert_eq!(scene.copies(id)["a@x.test"], copies, "{stage:?} {name}: {row:?}\n{}", scene.logs());
        assert_eq!(row.entry("1|a@x.test")["doubted"] == true, doubted, "{stage:?} {name}: {row:?}");
        assert_eq!(scene.copies(id)["c@x.test"], 1, "{stage:?} {name}: the second action is not touched");
        scene.stage.relay.clear_rules();
        assert!(scene.daemons[0].router.end().expect("asked").is_none(), "it goes on");
    }
    scene.stop().await;
}

fn has_error(row: &Row) -> bool {
    !row.entry("1|a@x.test")["error"].is_null()
}

fn error_is_right(row: &Row, stage: At, name: &str) {
    let error = &row.entry("1|a@x.test")["error"];
    let after = matches!(stage, At::Dot | At::AfterDot) && name != "shuts down";
    let class = if after { "unknown" } else { "deferred" };
    assert_eq!(error["class"], class, "{stage:?} {name}: {row:?}");
    assert_eq!(row.entry("1|a@x.test")["doubt"] == Value::Bool(true), after, "{stage:?} {name}: {row:?}");
}

/// Copies of the first mail, and whether it was in doubt.
fn expected(stage: At, name: &str, harmless: bool) -> (u64, bool) {
    match stage {
        _ if harmless => (1, false),
        // The relay had it, and what it said did not come, or was not understood.
        At::AfterDot => (2, true),
        // The relay is late, and stores what the router has given up.
        At::Dot if name == "answers late" => (2, true),
        At::Dot => (1, name != "shuts down"),
        At::Banner | At::Ehlo | At::Mail | At::Rcpt | At::Data | At::Body | At::Replied => (1, false),
        At::Rset | At::Noop | At::Quit => (1, false),
    }
}
