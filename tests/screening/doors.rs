//! Side doors: what would be approved though a rule, a person or a trial speaks against it.

use std::collections::BTreeMap;

use devkit::judge::{Mode, ScriptedJudge};
use maple_router::config::{Screening, ScreeningForm};
use maple_router::screening::tier1::{
    Bar, Content, Fields, FieldsPolicy, Profile, Reason, Ruleset, Waiver, scan,
};
use uuid::Uuid;

use crate::harness::Scene;

async fn bars(scene: &Scene, run: Uuid) -> Vec<String> {
    scene.one(&format!("SELECT bars FROM screening.submissions WHERE id = '{run}'")).await
}

#[tokio::test]
async fn an_answer_that_is_remembered_is_of_the_model_that_gave_it() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Scored(95));
    let working = Scene::work(scene.tools(Some(&judge), &Screening::default()));
    let first = scene.submit("on", "the same").await;
    scene.until(scene.run_of(first).await, &["PUBLISHED"]).await;
    scene.sql("UPDATE screening.verdicts SET answered = 'another'").await;
    let second = scene.submit("on", "the same").await;
    let run = scene.run_of(second).await;
    scene.until(run, &["NEEDS_REVIEW"]).await;
    assert_eq!(bars(&scene, run).await, ["uncalibrated_judge"]);
    assert_eq!(judge.requests(), 1, "it is remembered");
    let of_the_run: i64 = scene
        .one(&format!(
            "SELECT count(*) FROM screening.verdicts WHERE submission_id = '{run}' AND answered = 'another'"
        ))
        .await;
    assert_eq!(of_the_run, 1, "whoever reviews the run sees what it was judged by");
    working.stop().await;
}

#[tokio::test]
async fn an_answer_whose_concerns_were_emptied_is_asked_for_again() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Contradicting(92));
    let working = Scene::work(scene.tools(Some(&judge), &Screening::default()));
    let first = scene.submit("on", "the same").await;
    scene.until(scene.run_of(first).await, &["NEEDS_REVIEW"]).await;
    scene.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{first}'")).await;
    let concerns: i64 = scene.one("SELECT count(*) FROM screening.verdicts WHERE concerns <> '[]'").await;
    assert_eq!(concerns, 0, "what the judge noted is gone");
    let second = scene.submit("on", "the same").await;
    let run = scene.run_of(second).await;
    scene.until(run, &["NEEDS_REVIEW"]).await;
    assert_eq!(bars(&scene, run).await, ["contradiction"]);
    assert_eq!(judge.requests(), 2);
    working.stop().await;
}

#[test]
fn a_rule_that_wants_a_person_is_waived_and_still_wants_one() {
    let rules = Ruleset::with(Profile::Fields, &FieldsPolicy::default(), "").expect("it compiles");
    let values = vec![("message".to_owned(), "see <a href=x>y</a>".to_owned())];
    let mut report = scan(&Content::Fields(Fields { values }), &rules, 1).expect("scanned");
    assert_eq!(report.bars(), [Bar::ReviewFinding]);
    let waiver = Waiver { rule: "markup-links".to_owned(), place: None, reason: Reason::FalsePositive };
    report.apply(&[waiver]);
    assert_eq!(report.bars(), [Bar::WaivedBlock]);
}

#[tokio::test]
async fn a_form_that_wants_a_person_for_each_has_one_for_a_trusted_caller() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    scene.sql("UPDATE screening.forms SET force_review = true WHERE form_id = 'on'").await;
    scene.sql("ALTER TABLE submissions ADD COLUMN caller text DEFAULT 'partner'").await;
    let form = ScreeningForm {
        origin_column: Some("caller".to_owned()),
        trusted: vec!["partner".to_owned()],
        ..ScreeningForm::default()
    };
    let screening = Screening { forms: BTreeMap::from([("on".to_owned(), form)]), ..Screening::default() };
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Scored(95));
    let working = Scene::work(scene.tools(Some(&judge), &screening));
    let on = scene.submit("on", "hello").await;
    let run = scene.run_of(on).await;
    scene.until(run, &["NEEDS_REVIEW"]).await;
    assert_eq!(bars(&scene, run).await, ["force_review"]);
    working.stop().await;
    // And if a worker forgot it, the row would not.
    scene.put(run, "RECEIVED").await;
    let sql = format!(
        "UPDATE screening.submissions SET state = 'VENDOR_APPROVED', origin = 'partner' WHERE id = '{run}'"
    );
    let refused = scene.as_role("maple_screener", &sql).await.expect("refused");
    assert!(refused.starts_with("23514"), "{refused}");
}

#[tokio::test]
async fn a_text_in_a_field_with_a_persons_name_is_judged() {
    let scene = Scene::new().await;
    scene.calibrate().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::Scored(95));
    let working = Scene::work(scene.tools(Some(&judge), &Screening::default()));
    let id = Uuid::new_v4();
    let text = "We would like to tell you about a plan of ours, and it is a long one that nobody would take for a name. ";
    scene
        .sql(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'on');
             INSERT INTO submission_fields (submission_id, field_key, field_value, position)
             VALUES ('{id}', 'contact_message', '{text}', 1); COMMIT"
        ))
        .await;
    scene.until(scene.run_of(id).await, &["PUBLISHED"]).await;
    assert!(judge.has_seen("a plan of ours"), "{:?}", judge.asked());
    working.stop().await;
}
