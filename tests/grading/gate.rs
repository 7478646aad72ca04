//! The gate: which submissions may be claimed, whoever claims, what brings them there, and when an attempt is opened.

use devkit::postgres::Variant;
use maple_router::db::readiness::Readiness;
use maple_router::grading::core::message::ErrorType;
use uuid::Uuid;

use crate::harness::{Scene, Telling, graded};

const BOTH: Variant = Variant {
    audit_readable: false,
    with_011: true,
    router: true,
    content: false,
    screening: true,
    grading: true,
};

#[tokio::test]
async fn the_gate_says_of_each_case_what_the_contract_says() {
    let scene = Scene::new().await;
    let open = scene.submit("open", &[]).await;
    let (free, ungated) = scene.written("free", "a").await;
    let (gated, attempt) = scene.written("essay", "b").await;
    let (sent, other) = scene.written("send", "c").await;
    assert_eq!(scene.gate(open).await, "passed", "the form is not graded");
    for state in
        ["PENDING", "QUEUED", "PROCESSING", "ERROR", "RETRYING", "REVIEW_PENDING", "FAILED", "COMPLETED"]
    {
        for attempt in [ungated, attempt, other] {
            scene.put(attempt, state).await;
        }
        assert_eq!(scene.gate(free).await, "passed", "{state}: its mail goes at once");
        let (held, let_go) = match state {
            "COMPLETED" => ("passed", "passed"),
            "FAILED" => ("waiting", "passed"),
            _ => ("waiting", "waiting"),
        };
        assert_eq!(
            (scene.gate(gated).await.as_str(), scene.gate(sent).await.as_str()),
            (held, let_go),
            "{state}"
        );
    }
    // Released, in whatever state.
    scene.put(attempt, "PROCESSING").await;
    scene.quietly(&format!("UPDATE assessment.submissions SET released_at = now(), released_by = 'x', released_why = 'y' WHERE id = '{attempt}'")).await;
    assert_eq!(scene.gate(gated).await, "passed");
    // What the form says later changes nothing for an attempt that is there; nor is one from before held back.
    scene.put(other, "QUEUED").await;
    scene.sql("DELETE FROM assessment.profiles WHERE form_id = 'send'").await;
    assert_eq!(scene.gate(sent).await, "waiting", "its attempt is open, whatever became of the form");
    scene.quietly(&format!("DELETE FROM assessment.submissions WHERE id IN ('{other}', '{attempt}')")).await;
    assert_eq!(scene.gate(sent).await, "passed");
    assert_eq!(scene.gate(gated).await, "waiting", "nobody has opened its attempt");
    scene.sql("UPDATE assessment.profiles SET since = now()").await;
    assert_eq!(scene.gate(gated).await, "passed", "it is older than the grading of its form");
}

#[tokio::test]
async fn whoever_routes_hears_of_it_when_the_mail_may_go_and_not_before() {
    let scene = Scene::new().await;
    let open = scene.submit("open", &[]).await;
    let (free, _) = scene.written("free", "a").await;
    let queued = async |form: &str| {
        let (submission, attempt) = scene.written(form, "b").await;
        assert!(scene.events(submission).await.is_empty(), "{form}: nothing is ready");
        scene.put(attempt, "QUEUED").await;
        (submission, attempt)
    };
    assert_eq!(scene.events(open).await, ["finalized"]);
    assert_eq!(scene.events(free).await, ["finalized"], "its mail waits for nothing");
    let later = async || scene.count("router.outbox WHERE kind = 'grading.result'").await;
    let ungated = (free, scene.attempt_of(free).await);
    scene.put(ungated.1, "QUEUED").await;
    scene.take(&Telling::of(ungated).completed((1, 2), graded(7.5, 95))).await;
    assert_eq!((later().await, scene.events(free).await.len()), (1, 1), "its grade follows by another mail");
    let done = queued("essay").await;
    scene.take(&Telling::of(done).completed((1, 2), graded(7.5, 95))).await;
    assert_eq!((later().await, scene.events(done.0).await), (1, vec!["graded".to_owned()]));
    let held = queued("essay").await;
    scene.take(&Telling::of(held).error((1, 2), ErrorType::Model)).await;
    assert!(scene.events(held.0).await.is_empty(), "a person decides");
    let answer: String = scene.one(&format!("SELECT assessment.release('{}', 'x', 'y')", held.0)).await;
    assert_eq!((answer.as_str(), scene.events(held.0).await), ("done", vec!["graded".to_owned()]));
    let let_go = queued("send").await;
    scene.take(&Telling::of(let_go).error((1, 2), ErrorType::Model)).await;
    assert_eq!(scene.events(let_go.0).await, ["graded"], "it goes without a grade");
    let reviewed = queued("essay").await;
    scene.take(&Telling::of(reviewed).completed((1, 2), graded(7.5, 72))).await;
    assert!(scene.events(reviewed.0).await.is_empty(), "a person has the last word");
}

#[tokio::test]
async fn nobody_claims_what_waits_whatever_its_configuration_says() {
    let scene = Scene::new().await;
    let claim = |id: Uuid| format!("UPDATE submissions SET status = 'processing' WHERE id = '{id}'");
    let open = scene.submit("open", &[]).await;
    let (gated, attempt) = scene.written("essay", "b").await;
    assert_eq!(scene.as_role("forms_app", &claim(open)).await, None);
    let refused = scene.as_role("forms_app", &claim(gated)).await.expect("refused");
    assert!(refused.starts_with("23514") && refused.contains("is not graded yet"), "{refused}");
    // The gate was asked in another transaction: it is asked again.
    let asked =
        format!("BEGIN; SELECT set_config('maple_router.graded', 'asked', true); COMMIT; {}", claim(gated));
    assert_eq!(scene.as_role("forms_app", &asked).await, Some(refused.clone()));
    // A daemon that asks screening alone has not asked this one.
    let screened = format!("BEGIN; SELECT set_config('maple_router.gate', 'asked', true); {}", claim(gated));
    assert_eq!(scene.as_role("forms_app", &screened).await, Some(refused.clone()));
    let readiness = Readiness::new(None).expect("a readiness").graded(true);
    let ask = |ids: [Uuid; 3]| {
        let [a, b, c] = ids;
        format!(
            "BEGIN; SELECT {} FROM unnest(ARRAY['{a}', '{b}', '{c}']::uuid[]) WITH ORDINALITY AS n(id, n) \
             JOIN submissions s ON s.id = n.id {} ORDER BY n.n",
            readiness.gate_is_asked(),
            readiness.gate_of("s")
        )
    };
    let (first, last) = (scene.submit("open", &[]).await, scene.submit("open", &[]).await);
    for ids in [[first, last, gated], [first, gated, last], [gated, first, last]] {
        let decided = format!("{}; {}", ask(ids), claim(gated));
        assert_eq!(scene.as_role("forms_app", &decided).await, Some(refused.clone()), "{ids:?}");
    }
    // All have passed: it is not asked again, not even of a row that this transaction did not ask for.
    let unasked = format!("{}; {}; ROLLBACK", ask([first, last, first]), claim(gated));
    assert_eq!(scene.as_role("forms_app", &unasked).await, None);
    scene.put(attempt, "COMPLETED").await;
    assert_eq!(scene.as_role("forms_app", &claim(gated)).await, None);
    // Whoever may not look at attempts claims nothing at all.
    scene.sql("REVOKE SELECT ON assessment.submissions FROM forms_app").await;
    let refused = scene.as_role("forms_app", &claim(first)).await.expect("refused");
    assert!(refused.starts_with("42501"), "{refused}");
}

/// Screening's forms: `essay` enforced; `on` enforced and not graded.
async fn both() -> Scene {
    let scene = Scene::with(BOTH).await;
    scene
        .sql(
            "INSERT INTO forms (id, name) VALUES ('on', 'On');
             INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by) VALUES
               ('essay', 'fields', now() - interval '1 day', now() - interval '1 day', 'test'),
               ('on', 'fields', now() - interval '1 day', now() - interval '1 day', 'test')",
        )
        .await;
    scene
}

async fn published(scene: &Scene, submission: Uuid) {
    scene
        .quietly(&format!(
            "UPDATE screening.submissions SET state = 'TIER3_REVIEW', digest = screening.digest_of(subject), content = screening.digest_of(subject)
             WHERE subject = '{submission}'"
        ))
        .await;
    let approve = format!(
        "SELECT screening.decide((SELECT id FROM screening.submissions WHERE subject = '{submission}'), 1, 'reviewer-approve', 'reviewer:x', 'because')"
    );
    assert_eq!(scene.one::<String>(&approve).await, "done");
}

#[tokio::test]
async fn of_two_gates_both_have_to_be_passed_and_the_first_one_first() {
    let scene = both().await;
    let readiness = Readiness::new(None).expect("a readiness").screened(true).graded(true);
    let says = async |id: Uuid| -> (String, bool, String) {
        let sql = format!(
            "SELECT {}, {}, state FROM submissions s, router.evaluate_routing_readiness(s.id) WHERE s.id = '{id}'",
            readiness.gate("s"),
            readiness.is_ready("s")
        );
        let row = scene.eyes.query_one(&sql, &[]).await.expect("asked");
        (row.get(0), row.get(1), row.get(2))
    };
    let at = |gate: &str, ready: bool, state: &str| (gate.to_owned(), ready, state.to_owned());
    let claim = |id: Uuid| format!("UPDATE submissions SET status = 'processing' WHERE id = '{id}'");
    let id = scene.submit("essay", &[("answer", "a text")]).await;
    let open = scene.submit("open", &[]).await;
    assert_eq!(says(open).await, at("passed", true, "ready"));
    assert_eq!(says(id).await, at("waiting", false, "waiting"));
    assert_eq!(
        scene.count("assessment.submissions").await,
        0,
        "what may be screened out is graded by nobody"
    );
    assert_eq!(scene.store.births(10).await.expect("a pass"), 0, "nor by the pass");
    published(&scene, id).await;
    let attempt = scene.attempt_of(id).await;
    assert_eq!(says(id).await, at("ungraded", false, "waiting"), "it is published, and not graded");
    assert!(scene.events(id).await.is_empty());
    let refused = scene.as_role("forms_app", &claim(id)).await.expect("refused");
    assert!(refused.contains("is not graded yet"), "{refused}");
    // Each guard asks where its own gate was not asked: of a row that both have let pass nobody asks again.
    let told = readiness.gate_is_asked();
    assert!(told.contains("maple_router.gate") && told.contains("maple_router.graded"), "{told}");
    scene.put(attempt, "QUEUED").await;
    scene.take(&Telling::of((id, attempt)).completed((1, 2), graded(7.5, 95))).await;
    assert_eq!(says(id).await, at("passed", true, "ready"));
    assert_eq!(scene.events(id).await, ["graded"]);
    let asked = format!(
        "BEGIN; SELECT {told} FROM submissions s {} WHERE s.id = '{id}'; {}; COMMIT",
        readiness.gate_of("s"),
        claim(id)
    );
    assert_eq!(scene.as_role("forms_app", &asked).await, None);
    // What screening alone holds is no matter of grading's.
    let on = scene.submit("on", &[("message", "x")]).await;
    assert_eq!(says(on).await, at("waiting", false, "waiting"));
    published(&scene, on).await;
    assert_eq!(scene.events(on).await, ["screened"]);
    assert_eq!(says(on).await, at("passed", true, "ready"));
}

/// A lag is measured from then on: a grade that took its time is no delay of the routing.
#[tokio::test]
async fn ready_is_what_has_no_attachments_since_it_was_graded_or_released() {
    let scene = Scene::new().await;
    let readiness = Readiness::new(None).expect("a readiness").graded(true);
    let since = async |id: Uuid| -> Option<bool> {
        let sql = format!(
            "SELECT {} > s.created_at + interval '1 hour' FROM submissions s WHERE s.id = '{id}'",
            readiness.ready_at("s")
        );
        scene.one(&sql).await
    };
    let open = scene.submit("open", &[]).await;
    let (gated, attempt) = scene.written("essay", "b").await;
    scene.put(attempt, "COMPLETED").await;
    scene.sql("UPDATE submissions SET created_at = created_at - interval '3 days'").await;
    assert_eq!((since(open).await, since(gated).await), (Some(false), Some(true)));
    let watched = async || -> bool {
        scene
            .one(&format!(
                "SELECT {} FROM submissions s WHERE s.id = '{gated}'",
                readiness.is_being_graded("s")
            ))
            .await
    };
    assert!(!watched().await, "it is graded");
    scene.put(attempt, "FAILED").await;
    assert!(watched().await, "whoever watches grading watches it");
    scene.sql(&format!("INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status) VALUES ('{gated}', 'a', 'b', 'o', 'clean')")).await;
    assert_eq!(since(gated).await, None, "the end of its scan is recorded nowhere");
}

#[tokio::test]
async fn an_attempt_is_opened_when_nothing_but_its_grade_is_missing() {
    let scene = Scene::new().await;
    let id = Uuid::new_v4();
    scene
        .sql(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'essay');
             INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ('{id}', 'a', 'b', 'o'); COMMIT"
        ))
        .await;
    let born = async |id: Uuid| scene.count(&format!("assessment.submissions WHERE subject = '{id}'")).await;
    assert_eq!(born(id).await, 0, "its file is not scanned");
    assert_eq!(scene.store.births(10).await.expect("a pass"), 0);
    scene.sql(&format!("UPDATE attachments SET clamav_status = 'clean' WHERE submission_id = '{id}'")).await;
    assert_eq!(born(id).await, 1, "now it is");
    let attempt = scene.attempt_of(id).await;
    assert_eq!(
        (scene.state(attempt).await, scene.triggers(attempt).await),
        ("PENDING".into(), vec!["submit".into()])
    );
    // The time of its SLA has begun then, and stays what it was.
    let pinned = "SELECT deadline = created_at + interval '20 minutes' AND created_at > (SELECT created_at FROM submissions s WHERE s.id = subject)";
    let pinned = format!("{pinned} FROM assessment.submissions WHERE id = '{attempt}'");
    scene.sql("UPDATE assessment.profiles SET sla = '1 second'").await;
    assert!(scene.one::<bool>(&pinned).await);
    let open = scene.submit("open", &[]).await;
    assert_eq!(born(open).await, 0, "its form is not graded");
}

#[tokio::test]
async fn what_nobody_could_open_is_opened_by_the_pass_and_the_gate_is_shut_meanwhile() {
    let scene = Scene::new().await;
    scene
        .sql("ALTER TABLE assessment.submissions ADD CONSTRAINT broken CHECK (form_id = 'open') NOT VALID")
        .await;
    let (gated, free) = (scene.submit("essay", &[]).await, scene.submit("free", &[]).await);
    assert_eq!(scene.count("assessment.submissions").await, 0, "nobody's transaction has failed");
    assert_eq!((scene.gate(gated).await.as_str(), scene.gate(free).await.as_str()), ("waiting", "passed"));
    assert_eq!(scene.events(free).await, ["finalized"], "its mail goes at once all the same");
    // One that is routed already is owed its grade as well.
    scene.quietly(&format!("UPDATE submissions SET status = 'routed' WHERE id = '{free}'")).await;
    assert_eq!(scene.store.births(10).await.expect("a pass"), 0, "it is broken yet");
    scene.sql("ALTER TABLE assessment.submissions DROP CONSTRAINT broken").await;
    assert_eq!(scene.store.births(10).await.expect("a pass"), 2);
    assert_eq!(scene.count("assessment.submissions").await, 2);
    assert_eq!(scene.store.births(10).await.expect("a pass"), 0, "each is opened once");
    assert_eq!(scene.count("assessment.unborn").await, 0);
}
