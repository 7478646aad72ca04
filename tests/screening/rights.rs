//! Each identity is denied the others' work.

use crate::harness::Scene;

#[tokio::test]
async fn each_role_is_denied_the_others_work() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    let denied = [
        ("maple_screener", "SELECT * FROM submissions".to_owned()),
        ("maple_screener", "SELECT * FROM submission_fields".to_owned()),
        ("maple_screener", "SELECT * FROM attachments".to_owned()),
        ("maple_screener", "SELECT * FROM audit_log".to_owned()),
        ("maple_screener", "UPDATE submissions SET status = 'routed'".to_owned()),
        ("maple_screener", "SELECT * FROM router.outbox".to_owned()),
        ("maple_screener", "SELECT * FROM router.grey_queue".to_owned()),
        ("maple_screener", "INSERT INTO screening.submissions (subject, run, enforced, form_id, profile) VALUES (gen_random_uuid(), 1, true, 'on', 'fields')".to_owned()),
        ("maple_screener", format!("DELETE FROM screening.submissions WHERE id = '{run}'")),
        ("maple_screener", format!("UPDATE screening.submissions SET enforced = false WHERE id = '{run}'")),
        ("maple_screener", format!("UPDATE screening.submissions SET current = false WHERE id = '{run}'")),
        ("maple_screener", format!("UPDATE screening.submissions SET closed_at = now(), closed_why = 'failed' WHERE id = '{run}'")),
        ("maple_screener", "UPDATE screening.submission_state_events SET actor = 'x'".to_owned()),
        ("maple_screener", "DELETE FROM screening.submission_state_events".to_owned()),
        ("maple_screener", "UPDATE screening.scan_results SET score = 100".to_owned()),
        ("maple_screener", "UPDATE screening.verdicts SET score = 100".to_owned()),
        ("maple_screener", "DELETE FROM screening.forms".to_owned()),
        ("maple_screener", "UPDATE screening.forms SET enforced_since = NULL".to_owned()),
        ("maple_screener", "INSERT INTO screening.waivers (form_id, rule, reason, why, actor) VALUES ('on', 'x', 'will_fix', 'y', 'z')".to_owned()),
        ("maple_screener", format!("SELECT screening.decide('{run}', 1, 'reviewer-approve', 'x', 'y')")),
        ("maple_screener", format!("SELECT screening.redrive('{run}')")),
        ("maple_screener", format!("SELECT screening.rescreen('{on}', 'x', 'y')")),
        ("maple_screener", "INSERT INTO screening.published (skill_id, version, submission_id, url, path, commit, content) SELECT 'sk_0123456789abcdef', '1.0.0', id, '', '', '', '' FROM screening.submissions".to_owned()),
        ("forms_app", format!("UPDATE screening.submissions SET state = 'PUBLISHED' WHERE id = '{run}'")),
        ("forms_app", "INSERT INTO screening.scan_results (submission_id, job_type, attempt, content, ruleset, verdict, score) SELECT id, 'tier2-scan', 1, '', 'a', 'pass', 100 FROM screening.submissions".to_owned()),
        ("forms_app", "INSERT INTO screening.verdicts (submission_id, attempt, asked, profile, content, model, answered, prompt, ruleset, score, injection) SELECT id, 1, 1, 'fields', '', 'm', 'm', 'p', 'r', 100, false FROM screening.submissions".to_owned()),
        ("forms_app", "DELETE FROM screening.submission_state_events".to_owned()),
        ("forms_app", "UPDATE screening.forms SET enforced_since = NULL".to_owned()),
        ("forms_app", format!("SELECT * FROM screening.content('{run}', gen_random_uuid(), NULL, 0)")),
        ("forms_app", "SELECT screening.digest_of(gen_random_uuid())".to_owned()),
        ("forms_loader", format!("UPDATE screening.submissions SET state = 'PUBLISHED' WHERE id = '{run}'")),
        ("forms_app", format!("SELECT screening.decide('{run}', 1, 'reviewer-approve', 'x', 'y')")),
        ("forms_app", "SET ROLE maple_desk".to_owned()),
        ("maple_desk", format!("UPDATE screening.submissions SET state = 'PUBLISHED' WHERE id = '{run}'")),
        ("maple_desk", format!("SELECT * FROM screening.content('{run}', gen_random_uuid(), NULL, 0)")),
        ("forms_loader", format!("SELECT screening.decide('{run}', 1, 'reviewer-approve', 'x', 'y')")),
        ("forms_readonly", "SELECT * FROM screening.submissions".to_owned()),
    ];
    for (role, sql) in denied {
        let answer = scene.as_role(role, &sql).await;
        assert!(
            answer.as_deref().is_some_and(|answer| answer.starts_with("42501")),
            "{role}: {sql}: {answer:?}"
        );
    }
    assert_eq!(scene.state(run).await, "RECEIVED");
}

#[tokio::test]
async fn the_screener_reads_what_was_entered_only_of_runs_that_it_has_leased() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a private word").await;
    let run = scene.run_of(on).await;
    let token = uuid::Uuid::new_v4();
    assert_eq!(
        scene.store.submitted(run, token, None, 0).await.expect("asked"),
        None,
        "it is leased by nobody"
    );
    scene.sql(&format!("UPDATE screening.submissions SET lease_token = '{token}', leased_until = now() + interval '1 minute' WHERE id = '{run}'")).await;
    assert_eq!(
        scene.store.submitted(run, uuid::Uuid::new_v4(), None, 0).await.expect("asked"),
        None,
        "by somebody else"
    );
    let submitted = scene.store.submitted(run, token, None, 0).await.expect("asked").expect("leased");
    assert_eq!(submitted.fields[1], ("message".to_owned(), "a private word".to_owned()));
    assert!(!format!("{submitted:?}").contains("private"), "it is shown to nobody");
    scene
        .sql(&format!(
            "UPDATE screening.submissions SET leased_until = now() - interval '1 second' WHERE id = '{run}'"
        ))
        .await;
    assert_eq!(
        scene.store.submitted(run, token, None, 0).await.expect("asked"),
        None,
        "its lease has run out"
    );
}
