//! The gate: which submissions may be claimed, whoever claims, and what brings them there.

use maple_router::db::readiness::Readiness;

use crate::harness::Scene;

#[tokio::test]
async fn the_nine_cases_of_the_page() {
    let scene = Scene::new().await;
    let open = scene.submit("open", "a").await;
    let shadow = scene.submit("shadow", "b").await;
    let on = scene.submit("on", "c").await;
    assert_eq!(scene.gate(open).await, "passed", "the form is not screened");
    assert_eq!(scene.gate(shadow).await, "passed", "in its shadow nothing waits");
    assert_eq!(scene.gate(on).await, "waiting", "its run is open");
    let (run, shadowed) = (scene.run_of(on).await, scene.run_of(shadow).await);
    scene.put(shadowed, "REJECTED").await;
    assert_eq!(scene.gate(shadow).await, "passed", "a shadow's rejection changes nothing");
    for (state, expected) in [
        ("TIER1_SCANNING", "waiting"),
        ("TIER2_SCANNING", "waiting"),
        ("AUTO_APPROVED", "waiting"),
        ("VENDOR_APPROVED", "waiting"),
        ("NEEDS_REVIEW", "waiting"),
        ("TIER3_REVIEW", "waiting"),
        ("TIER1_FAILED", "out"),
        ("REJECTED", "out"),
        ("PUBLISHED", "passed"),
    ] {
        scene.put(run, state).await;
        assert_eq!(scene.gate(on).await, expected, "{state}");
    }
    // What was published is what stands there, or waits.
    scene.sql(&format!("UPDATE submission_fields SET field_value = 'other' WHERE submission_id = '{on}' AND field_key = 'message'")).await;
    assert_eq!(scene.gate(on).await, "waiting", "it was changed after it was screened");
    // A form that is not screened any more opens no gate that a run had shut.
    scene.put(run, "NEEDS_REVIEW").await;
    scene.sql("DELETE FROM screening.forms WHERE form_id = 'on'").await;
    assert_eq!(scene.gate(on).await, "waiting", "its run is open, whatever became of the form");
    // Submissions from before are not held back, and those of an enforced form without a run are.
    scene.sql("INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by) VALUES ('on', 'fields', now(), now(), 'test')").await;
    scene.sql(&format!("DELETE FROM screening.submissions WHERE subject = '{on}'")).await;
    assert_eq!(scene.gate(on).await, "passed", "it is older than the enforcement");
    let unborn = scene.submit("on", "d").await;
    scene.sql(&format!("DELETE FROM screening.submissions WHERE subject = '{unborn}'")).await;
    assert_eq!(scene.gate(unborn).await, "waiting", "nobody looked at it");
}

#[tokio::test]
async fn an_event_comes_when_the_run_has_ended_and_not_before() {
    let scene = Scene::new().await;
    let open = scene.submit("open", "a").await;
    let shadow = scene.submit("shadow", "b").await;
    let on = scene.submit("on", "c").await;
    assert_eq!(scene.events(open).await, ["finalized"]);
    assert_eq!(scene.events(shadow).await, ["finalized"], "in its shadow it is routed as ever");
    assert!(scene.events(on).await.is_empty(), "nothing is ready");
    for state in ["PUBLISHED", "REJECTED"] {
        let on = scene.submit("on", state).await;
        let run = scene.run_of(on).await;
        scene.put(run, "TIER3_REVIEW").await;
        let command = if state == "PUBLISHED" { "reviewer-approve" } else { "reviewer-reject" };
        let answer: String = scene
            .one(&format!("SELECT screening.decide('{run}', 1, '{command}', 'reviewer:x', 'because')"))
            .await;
        assert_eq!((answer.as_str(), scene.state(run).await.as_str()), ("done", state));
        assert_eq!(scene.events(on).await, ["screened"], "{state}: whoever claims it sees what follows");
    }
}

/// A lag is measured from then on: people who took three days are no delay of the routing.
#[tokio::test]
async fn ready_is_what_has_no_attachments_since_its_publication() {
    let scene = Scene::new().await;
    let readiness = Readiness::new(None).expect("a readiness").screened(true);
    let since = async |id: uuid::Uuid| -> Option<bool> {
        let sql = format!(
            "SELECT {} > s.created_at + interval '1 hour' FROM submissions s WHERE s.id = '{id}'",
            readiness.ready_at("s")
        );
        scene.one(&sql).await
    };
    let (open, on) = (scene.submit("open", "a").await, scene.submit("on", "b").await);
    scene.put(scene.run_of(on).await, "PUBLISHED").await;
    scene.sql("UPDATE submissions SET created_at = created_at - interval '3 days'").await;
    assert_eq!((since(open).await, since(on).await), (Some(false), Some(true)));
    scene.put(scene.run_of(on).await, "REJECTED").await;
    assert_eq!(since(on).await, Some(false), "it is not published");
    scene.put(scene.run_of(on).await, "PUBLISHED").await;
    scene.sql(&format!("INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status) VALUES ('{on}', 'a', 'b', 'o', 'clean')")).await;
    assert_eq!(since(on).await, None, "the end of its scan is recorded nowhere");
}

#[tokio::test]
async fn nobody_claims_what_waits_whatever_its_configuration_says() {
    let scene = Scene::new().await;
    let claim = |id| format!("UPDATE submissions SET status = 'processing' WHERE id = '{id}'");
    let (open, on) = (scene.submit("open", "a").await, scene.submit("on", "b").await);
    assert_eq!(scene.as_role("forms_app", &claim(open)).await, None);
    let refused = scene.as_role("forms_app", &claim(on)).await.expect("refused");
    assert!(
        refused.starts_with("23514") && refused.contains("is not published by its screening"),
        "{refused}"
    );
    // The gate was asked in another transaction: it is asked again.
    let asked =
        format!("BEGIN; SELECT set_config('maple_router.gate', 'asked', true); COMMIT; {}", claim(on));
    assert_eq!(scene.as_role("forms_app", &asked).await, Some(refused.clone()));
    // One of those it was asked for waits: each of them is asked for again, whatever was decided by the answer.
    let readiness = Readiness::new(None).expect("a readiness").screened(true);
    let (join, told) = (readiness.gate_of("s"), readiness.gate_is_asked());
    let ask = |ids: [uuid::Uuid; 3]| {
        let [a, b, c] = ids;
        format!(
            "BEGIN; SELECT {told} FROM unnest(ARRAY['{a}', '{b}', '{c}']::uuid[]) WITH ORDINALITY AS n(id, n) \
             JOIN submissions s ON s.id = n.id {join} ORDER BY n.n"
        )
    };
    let (first, last) = (scene.submit("open", "d").await, scene.submit("open", "e").await);
    for ids in [[first, last, on], [first, on, last], [on, first, last]] {
        let decided = format!("{}; {}", ask(ids), claim(on));
        assert_eq!(scene.as_role("forms_app", &decided).await, Some(refused.clone()), "{ids:?}");
    }
    // All have passed: it is not asked again, not even of a row that this transaction did not ask for.
    let unasked = format!("{}; {}; ROLLBACK", ask([first, last, first]), claim(on));
    assert_eq!(scene.as_role("forms_app", &unasked).await, None);
    scene.put(scene.run_of(on).await, "PUBLISHED").await;
    assert_eq!(scene.as_role("forms_app", &claim(on)).await, None);
    // Whoever may not look at runs claims nothing at all.
    let other = scene.submit("open", "c").await;
    scene.sql("REVOKE SELECT ON screening.submissions FROM forms_app").await;
    let refused = scene.as_role("forms_app", &claim(other)).await.expect("refused");
    assert!(refused.starts_with("42501"), "{refused}");
}

#[tokio::test]
async fn a_run_is_born_at_finalize_and_what_was_swallowed_by_the_pass() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    assert_eq!(scene.triggers(run).await, ["api-submission"]);
    assert_eq!(scene.state(run).await, "RECEIVED");
    // Births fail: nobody's transaction does, and the gate is shut meanwhile.
    scene
        .sql("ALTER TABLE screening.submissions ADD CONSTRAINT broken CHECK (form_id <> 'on') NOT VALID")
        .await;
    let swallowed = scene.submit("on", "b").await;
    let born = async || -> i64 {
        scene.one(&format!("SELECT count(*) FROM screening.submissions WHERE subject = '{swallowed}'")).await
    };
    assert_eq!((born().await, scene.gate(swallowed).await.as_str()), (0, "waiting"));
    scene.sql("ALTER TABLE screening.submissions DROP CONSTRAINT broken").await;
    assert_eq!(scene.store.births(100).await.expect("a pass"), 1);
    assert_eq!(born().await, 1);
    assert_eq!(scene.daemon.births(100).await.expect("a pass"), 0, "each is born once");
}

#[tokio::test]
async fn a_submission_that_is_emptied_or_fails_otherwise_closes_its_run_without_a_transition() {
    let scene = Scene::new().await;
    for (status, why) in [("purged", "purged"), ("failed", "failed")] {
        let on = scene.submit("on", status).await;
        let run = scene.run_of(on).await;
        scene.put(run, "NEEDS_REVIEW").await;
        scene.sql(&format!("UPDATE submissions SET status = '{status}' WHERE id = '{on}'")).await;
        let closed: Option<String> =
            scene.one(&format!("SELECT closed_why FROM screening.submissions WHERE id = '{run}'")).await;
        assert_eq!(closed.as_deref(), Some(why));
        assert_eq!(scene.triggers(run).await, ["api-submission"], "no transition");
        let answer: String =
            scene.one(&format!("SELECT screening.decide('{run}', 1, 'admin-reject', 'x', 'because')")).await;
        assert_eq!(answer, "closed");
    }
}

#[tokio::test]
async fn what_was_published_and_changed_since_is_told() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    scene.put(run, "PUBLISHED").await;
    scene
        .sql(&format!(
            "UPDATE screening.submissions SET ended_at = now() - interval '5 minutes' WHERE id = '{run}'"
        ))
        .await;
    assert_eq!(scene.daemon.reconcile(10).await.expect("looked"), 0, "it is what was screened");
    scene.sql(&format!("INSERT INTO submission_fields (submission_id, field_key, field_value) VALUES ('{on}', 'more', 'x')")).await;
    assert_eq!(scene.daemon.reconcile(10).await.expect("looked"), 1);
    assert_eq!(scene.entries(run).await, ["screening_job content_changed Pending"]);
    assert_eq!(scene.daemon.reconcile(10).await.expect("looked"), 0, "once");
}
