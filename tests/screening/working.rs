//! Runs from their birth to their end, by the real workers: what the document's story tells, and what must not happen.

use devkit::judge::{Mode, ScriptedJudge};
use maple_router::config::{Screening, ScreeningForm};
use maple_router::kernel::jobs::listener::Listener;

use crate::harness::{PATIENCE, Scene};

fn screening() -> Screening {
    let form = ScreeningForm {
        honeypot_fields: vec!["website".to_owned()],
        origin_column: Some("happyfox_status".to_owned()),
        trusted: vec!["Greenpeace-NL".to_owned()],
        ..ScreeningForm::default()
    };
    Screening {
        protected_domains: vec!["greenpeace.org".to_owned()],
        forms: [("on".to_owned(), form)].into(),
        ..Screening::default()
    }
}

#[tokio::test]
async fn each_score_goes_where_the_document_says_and_a_bar_to_a_person() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    let working = Scene::work(scene.tools(Some(&judge), &screening()));
    for (score, force, state, reason) in [
        (92, false, "PUBLISHED", None),
        (80, false, "PUBLISHED", None),
        (79, false, "NEEDS_REVIEW", Some("concerns")),
        (60, false, "NEEDS_REVIEW", Some("concerns")),
        (59, false, "REJECTED", None),
        (92, true, "NEEDS_REVIEW", Some("concerns")),
    ] {
        judge.set(Mode::Scored(score));
        scene.sql(&format!("UPDATE screening.forms SET force_review = {force}")).await;
        let on = scene.submit("on", &format!("hello {score} {force}")).await;
        let run = scene.run_of(on).await;
        assert_eq!(
            scene.until(run, &["PUBLISHED", "NEEDS_REVIEW", "REJECTED"]).await,
            state,
            "{score} {force}"
        );
        let kept: Option<i32> =
            scene.one(&format!("SELECT score FROM screening.submissions WHERE id = '{run}'")).await;
        assert_eq!(kept, Some(score.into()));
        let expected: Vec<String> =
            reason.map(|reason| format!("screening {reason} Pending")).into_iter().collect();
        assert_eq!(scene.entries(run).await, expected, "{score} {force}");
        let told = scene.events(on).await;
        assert_eq!(told.len(), usize::from(reason.is_none()), "{told:?}");
    }
    working.stop().await;
}

#[tokio::test]
async fn the_events_are_those_of_the_document() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Scored(92));
    let working = Scene::work(scene.tools(Some(&judge), &screening()));
    let on = scene.submit("on", "hello").await;
    let run = scene.run_of(on).await;
    scene.until(run, &["PUBLISHED"]).await;
    let rows = scene
        .eyes
        .query(
            "SELECT from_state, to_state, trigger, actor, actor_type, metadata FROM screening.submission_state_events
             WHERE submission_id = $1 ORDER BY created_at",
            &[&run],
        )
        .await
        .expect("events");
    let events: Vec<(Option<String>, String, String, String)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(4))).collect();
    let event = |from: Option<&str>, to: &str, trigger: &str, actor: &str| {
        (from.map(str::to_owned), to.to_owned(), trigger.to_owned(), actor.to_owned())
    };
    assert_eq!(
        events,
        [
            event(None, "RECEIVED", "api-submission", "system"),
            event(Some("RECEIVED"), "TIER1_SCANNING", "non-vendor-submission", "system"),
            event(Some("TIER1_SCANNING"), "TIER2_SCANNING", "tier1-pass", "worker"),
            event(Some("TIER2_SCANNING"), "AUTO_APPROVED", "tier2-pass", "worker"),
            event(Some("AUTO_APPROVED"), "PUBLISHED", "publish-complete", "system"),
        ]
    );
    let judged: serde_json::Value = rows[3].get(5);
    assert_eq!(
        (judged["score"].as_i64(), judged["model"].as_str()),
        (Some(92), Some("devkit-scripted-1")),
        "{judged}"
    );
    assert_eq!(scene.events(on).await, ["screened"]);
    working.stop().await;
}

#[tokio::test]
async fn a_rule_that_blocks_fails_the_run_and_a_waived_one_is_a_persons() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Scored(95));
    let working = Scene::work(scene.tools(Some(&judge), &screening()));
    let spam = async || {
        let on = scene.submit("on", "hello").await;
        // The honeypot stands in the row before the workers look.
        on
    };
    scene
        .sql(
            "CREATE FUNCTION honeypot() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES (NEW.id, 'website', 'http://x.example', 9);
               RETURN NULL; END $$;
             CREATE TRIGGER aa_honeypot AFTER INSERT ON submissions FOR EACH ROW EXECUTE FUNCTION honeypot()",
        )
        .await;
    let on = spam().await;
    let run = scene.run_of(on).await;
    scene.until(run, &["TIER1_FAILED"]).await;
    assert_eq!(judge.requests(), 0, "nobody is asked about it");
    assert!(scene.entries(run).await.is_empty(), "spam does not fill the desk");
    assert_eq!(scene.events(on).await, ["screened"], "whoever claims it fails it");
    let rule: String = scene
        .one(&format!(
            "SELECT rule FROM screening.findings WHERE submission_id = '{run}' AND severity = 'block'"
        ))
        .await;
    let waived = scene
        .publisher
        .waive(
            "on",
            (&rule, None),
            maple_router::screening::store::setup::WaiverReason::FalsePositive,
            ("test", "x"),
        )
        .await;
    assert!(waived.expect("kept").is_some());
    let again = spam().await;
    let run = scene.run_of(again).await;
    scene.until(run, &["NEEDS_REVIEW"]).await;
    let bars: Vec<String> =
        scene.one(&format!("SELECT bars FROM screening.submissions WHERE id = '{run}'")).await;
    assert!(bars.contains(&"waived_block".to_owned()), "{bars:?}");
    working.stop().await;
}

#[tokio::test]
async fn a_trusted_caller_goes_past_the_tiers_and_is_looked_at_all_the_same() {
    let scene = Scene::new().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    let id = uuid::Uuid::new_v4();
    let trusted = async |origin: &str, website: &str| {
        let id = uuid::Uuid::new_v4();
        scene
            .sql(&format!(
                "BEGIN; INSERT INTO submissions (id, form_id, happyfox_status) VALUES ('{id}', 'on', '{origin}');
                 INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ('{id}', 'message', 'hi {id}', 1),
                   ('{id}', 'website', '{website}', 2); COMMIT"
            ))
            .await;
        scene.run_of(id).await
    };
    let working = Scene::work(scene.tools(Some(&judge), &screening()));
    let known = trusted("greenpeace-nl", "").await;
    scene.until(known, &["PUBLISHED"]).await;
    assert_eq!(scene.triggers(known).await, ["api-submission", "vendor-auto-verify", "publish-complete"]);
    assert!(scene.entries(known).await.is_empty());
    let blocked = trusted("greenpeace-nl", "http://x.example").await;
    scene.until(blocked, &["PUBLISHED"]).await;
    assert_eq!(
        scene.entries(blocked).await,
        ["screening_job vendor_block Pending"],
        "people are told that a rule blocks it"
    );
    // Somebody else, and a field of the submission itself, prove nothing.
    let stranger = trusted("greenpeace-nl.example", "").await;
    scene
        .until(stranger, &["TIER2_SCANNING", "NEEDS_REVIEW", "PUBLISHED", "REJECTED", "AUTO_APPROVED"])
        .await;
    assert_eq!(scene.triggers(stranger).await[1], "non-vendor-submission", "{id}");
    working.stop().await;
}

#[tokio::test]
async fn what_changes_under_way_is_given_up_on_and_redriven_or_screened_again() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    let on = scene.submit("on", "hello").await;
    let run = scene.run_of(on).await;
    scene.put(run, "TIER1_SCANNING").await;
    scene.sql(&format!("UPDATE submission_fields SET field_value = 'other' WHERE submission_id = '{on}' AND field_key = 'message'")).await;
    let working = Scene::work(scene.tools(Some(&judge), &screening()));
    let began = std::time::Instant::now();
    while scene.entries(run).await.is_empty() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(scene.entries(run).await, ["screening_job content_changed Pending"]);
    assert_eq!(
        (scene.state(run).await.as_str(), scene.gate(on).await.as_str()),
        ("TIER1_SCANNING", "waiting")
    );
    // Another run looks at what stands there now; the old one is closed, and stays.
    judge.set(Mode::Scored(92));
    let answer = scene
        .daemon
        .pool()
        .transaction("screening_decide", async |tx| {
            scene.daemon.rescreen(&tx, on, ("operator:x", "it was changed")).await
        })
        .await
        .expect("answered");
    let second = answer.1.expect("a run");
    scene.until(second, &["PUBLISHED"]).await;
    assert_eq!(scene.gate(on).await, "passed");
    let closed: Option<String> =
        scene.one(&format!("SELECT closed_why FROM screening.submissions WHERE id = '{run}'")).await;
    assert_eq!(closed.as_deref(), Some("superseded"));
    working.stop().await;
}

#[tokio::test]
async fn what_kills_its_workers_ends_at_eight_claims_and_with_a_person() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "hello").await;
    let run = scene.run_of(on).await;
    scene.put(run, "TIER1_SCANNING").await;
    scene.sql(&format!("UPDATE screening.submissions SET claims = 8 WHERE id = '{run}'")).await;
    let working = Scene::work(scene.tools(None, &screening()));
    let began = std::time::Instant::now();
    while scene.entries(run).await.is_empty() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(scene.entries(run).await, ["screening_job poison Pending"]);
    working.stop().await;
    let redriven =
        scene.daemon.pool().transaction("screening_decide", async |tx| scene.daemon.redrive(&tx, run).await);
    assert!(redriven.await.expect("answered"));
    let claims: (i32, i32) = {
        let row = scene
            .eyes
            .query_one("SELECT claims_before, claims FROM screening.submissions WHERE id = $1", &[&run])
            .await
            .expect("a row");
        (row.get(0), row.get(1))
    };
    assert_eq!(claims, (9, 0), "a claim's number is never given twice");
}

#[tokio::test]
async fn whoever_came_back_is_not_taken_for_dead() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "hello").await;
    let run = scene.run_of(on).await;
    // Faults of the database: each claim was given back in time.
    for _ in 0..12 {
        let leased = format!(
            "UPDATE screening.submissions SET lease_token = gen_random_uuid(), leased_until = now() + interval '1 minute', claims = claims + 1 WHERE id = '{run}'"
        );
        scene.sql(&leased).await;
        scene
            .sql(&format!(
                "UPDATE screening.submissions SET lease_token = NULL, leased_until = NULL WHERE id = '{run}'"
            ))
            .await;
    }
    let counted: (i32, i32) = {
        let row = scene
            .eyes
            .query_one("SELECT claims, returned FROM screening.submissions WHERE id = $1", &[&run])
            .await;
        let row = row.expect("a row");
        (row.get(0), row.get(1))
    };
    assert_eq!(counted, (12, 12));
    let working = Scene::work(scene.tools(None, &screening()));
    scene.until(run, &["NEEDS_REVIEW"]).await;
    working.stop().await;
}

/// A screener whose workers are gone would wait for ever, and look alive.
#[tokio::test]
async fn a_worker_that_may_not_go_on_ends_the_screener() {
    let scene = Scene::new().await;
    let stop = tokio_util::sync::CancellationToken::new();
    let tools = scene.tools(None, &screening());
    let running = tokio::spawn(maple_router::screening::worker::run(tools, Listener::silent, stop.clone()));
    scene.sql("REVOKE SELECT ON screening.submissions FROM maple_screener").await;
    let in_order = tokio::time::timeout(PATIENCE, running).await.expect("in time").expect("it ends");
    assert!(!in_order && !stop.is_cancelled());
}

#[tokio::test]
async fn a_shadow_changes_nothing_and_runs_all_the_same() {
    let scene = Scene::new().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Scored(10));
    let working = Scene::work(scene.tools(Some(&judge), &screening()));
    let shadow = scene.submit("shadow", "hello").await;
    let run = scene.run_of(shadow).await;
    assert_eq!(scene.events(shadow).await, ["finalized"], "it is routed as ever");
    scene.until(run, &["REJECTED"]).await;
    assert_eq!(scene.gate(shadow).await, "passed");
    assert_eq!(scene.events(shadow).await, ["finalized"], "and nobody hears of it");
    working.stop().await;
}
