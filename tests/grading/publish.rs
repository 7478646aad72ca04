//! PENDING: what is put into the grader's queue, what is compared at once, and what can be neither.

use devkit::grader::Recording;
use maple_router::grading::core::message::{Ask, Grade, MOST_TEXT, Payload, Request};
use serde_json::json;

use crate::harness::{Models, Scene, essay};

/// Form, fields, and what is expected of them.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[tokio::test]
async fn a_request_says_what_is_graded_and_nothing_of_whoever_wrote_it() {
    let scene = Scene::new().await;
    scene
        .sql(r#"UPDATE assessment.questions SET known = '["Known words."]', rubric = '7' WHERE id = 'parks'"#)
        .await;
    let fields = [("email", "zoe@example.org"), ("name", "Zoe"), ("answer", "Parks are good.")];
    let id = scene.submit("essay", &fields).await;
    let attempt = scene.attempt_of(id).await;
    let working = scene.main_side();
    scene.until(attempt, &["QUEUED"]).await;
    let Request { request_id, submission_id, attempt: number, ask } = scene.request_of(attempt).await;
    assert_eq!((request_id, submission_id, number), (attempt, id, 1));
    let Ask::Grade(grade) = ask else { panic!("a grade is asked for") };
    let Grade { deadline_at, rubric, question, payload, .. } = *grade;
    assert_eq!(
        (rubric.as_str(), question.id.as_str(), question.known),
        ("7", "parks", vec!["Known words.".to_owned()])
    );
    let Payload::Text { text, word_count, .. } = payload else { panic!("a text") };
    assert_eq!((text.as_str(), word_count), ("Parks are good.", 3));
    let same =
        format!("SELECT deadline = '{deadline_at}' FROM assessment.submissions WHERE id = '{attempt}'");
    assert!(scene.one::<bool>(&same).await, "the grader hears of the deadline");
    let sent: String = scene.one("SELECT string_agg(payload::text, ' ') FROM mq.grading_request").await;
    assert!(!sent.contains("zoe") && !sent.contains("Zoe"), "{sent}");
    assert_eq!(scene.triggers(attempt).await, ["submit", "request-published"]);
    working.stop().await;
}

#[tokio::test]
async fn listening_and_reading_are_graded_at_once_by_their_key() {
    let scene = Scene::new().await;
    scene
        .sql(
            r#"INSERT INTO forms (id, name) VALUES ('read', 'Read');
               INSERT INTO assessment.questions (id, skill, answer_key, set_by) VALUES ('page-1', 'reading', '{"1": "true"}', 'test');
               INSERT INTO assessment.profiles (form_id, skill, question, sla, since, set_by) VALUES ('read', 'reading', 'page-1', '1 minute', now() - interval '1 day', 'test')"#,
        )
        .await;
    let all: [Case<'_>; 6] = [
        ("listen", &[("q1", "nine"), ("q2", "coffee"), ("q3", "Paris")], "final 10.0 C1"),
        // Compatible characters, case and spaces make no difference, and alternatives are as good.
        (
            "listen",
            &[("q1", " \u{ff2e}INE "), ("q2", "cafe\u{301}\u{a0}au LAIT"), ("q3", "PARIS")],
            "final 10.0 C1",
        ),
        ("listen", &[("q1", "nine"), ("q2", "tea"), ("q3", "paris"), ("q4", "nine")], "final 6.7 B2"),
        ("listen", &[("q1", "nine")], "final 3.3 A2"),
        ("listen", &[], "final 0.0 A1"),
        ("read", &[("1", "True")], "final 10.0 C1"),
    ];
    let mut attempts = Vec::new();
    for (form, fields, expected) in all {
        let id = scene.submit(form, fields).await;
        attempts.push((id, scene.attempt_of(id).await, expected));
    }
    let working = scene.main_side();
    for (id, attempt, expected) in attempts {
        scene.until(attempt, &["COMPLETED"]).await;
        assert_eq!(scene.results(attempt).await, [expected]);
        let result = scene.result(attempt, "final").await;
        assert_eq!(
            (&result["confidence"], &result["gradingMode"], &result["reviewRequired"], &result["indicative"]),
            (&json!(100), &json!("auto"), &json!(false), &json!(true)),
            "{result}"
        );
        assert_eq!(scene.triggers(attempt).await, ["submit", "auto-graded"]);
        assert_eq!(
            (scene.events(id).await, scene.gate(id).await),
            (vec!["graded".to_owned()], "passed".into())
        );
    }
    assert_eq!(scene.count("mq.grading_request").await, 0, "nobody is asked");
    assert_eq!(scene.count("assessment.progress").await, 6);
    working.stop().await;
}

#[tokio::test]
async fn what_cannot_be_graded_fails_with_its_reason_and_a_person_has_it() {
    let scene = Scene::new().await;
    let long = "word ".repeat(MOST_TEXT / 5 + 1);
    scene
        .sql(
            r#"INSERT INTO forms (id, name) SELECT f, f FROM unnest(ARRAY['keyless', 'broken', 'asks', 'gone']) AS f;
               INSERT INTO assessment.questions (id, skill, answer_key, set_by) VALUES ('keyless', 'listening', NULL, 'test'),
                 ('broken', 'listening', '{"q1": []}', 'test');
               INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, consent_field, sla, since, set_by) VALUES
                 ('keyless', 'listening', 'keyless', NULL, NULL, NULL, '1 minute', now() - interval '1 day', 'test'),
                 ('broken', 'listening', 'broken', NULL, NULL, NULL, '1 minute', now() - interval '1 day', 'test'),
                 ('asks', 'writing', 'parks', 'answer', 'email', 'agree', '1 minute', now() - interval '1 day', 'test'),
                 ('gone', 'writing', 'parks', 'answer', 'email', NULL, '1 minute', now() - interval '1 day', 'test')"#,
        )
        .await;
    let all: [Case<'_>; 10] = [
        ("keyless", &[("q1", "x")], "no_answer_key"),
        ("broken", &[("q1", "x")], "no_answer_key"),
        ("asks", &[("answer", "a text")], "no_consent"),
        ("asks", &[("answer", "a text"), ("agree", "no")], "no_consent"),
        ("asks", &[("answer", "a text"), ("agree", " Yes ")], ""),
        ("essay", &[], "no_work"),
        ("essay", &[("answer", " \n ")], "no_work"),
        ("essay", &[("answer", &long)], "invalid_input"),
        ("speak", &[], "no_work"),
        ("gone", &[("answer", "a text")], "no_profile"),
    ];
    let mut attempts = Vec::new();
    for (form, fields, expected) in all {
        let id = scene.submit(form, fields).await;
        attempts.push((form, id, scene.attempt_of(id).await, expected));
    }
    scene.sql("DELETE FROM assessment.profiles WHERE form_id = 'gone'").await;
    let working = scene.main_side();
    for (form, id, attempt, expected) in attempts {
        if expected.is_empty() {
            scene.until(attempt, &["QUEUED"]).await;
            continue;
        }
        assert_eq!(scene.until(attempt, &["FAILED", "QUEUED", "COMPLETED"]).await, "FAILED", "{form}");
        assert_eq!(scene.why(attempt).await.as_deref(), Some(expected), "{form}");
        assert_eq!(scene.entries(attempt).await, [format!("grading_failed {expected} Pending")]);
        assert_eq!(scene.triggers(attempt).await, ["submit", "invalid-job"]);
        assert_eq!(scene.gate(id).await, "waiting", "{form}: a grade is owed");
    }
    assert_eq!(scene.count("mq.grading_request").await, 1, "with consent it is sent");
    working.stop().await;
}

#[tokio::test]
async fn a_recording_is_sent_as_a_link_that_works_beyond_the_deadline() {
    let scene = Scene::new().await;
    let models = Models::new().await;
    models.scripted.keep("a1.mp3", Recording::said("I went to the sea."));
    let unscanned = scene.spoken("a1.mp3", "pending").await;
    assert_eq!(unscanned.1, None, "its file is not scanned");
    let (id, attempt) = scene.spoken("a1.mp3", "clean").await;
    let attempt = attempt.expect("an attempt");
    let working = scene.main_side_signing(Some(models.signer().await));
    scene.until(attempt, &["QUEUED"]).await;
    let Ask::Grade(grade) = scene.request_of(attempt).await.ask else { panic!("a grade") };
    let Payload::Audio { url, part, .. } = grade.payload else { panic!("a recording") };
    assert_eq!(part, 1);
    assert!(url.starts_with(&format!("http://{}/recordings/a1.mp3?", models.scripted.authority())), "{url}");
    let lasts: u64 = url
        .split("X-Goog-Expires=")
        .nth(1)
        .and_then(|rest| rest.split('&').next()?.parse().ok())
        .expect("a time");
    assert!((4_440..=4_500).contains(&lasts), "an hour and a quarter: {lasts}");
    let told: String = scene.one("SELECT string_agg(metadata::text, ' ') FROM assessment.events").await;
    assert!(!told.contains("X-Goog"), "{told}");
    assert_eq!(scene.gate(id).await, "waiting");
    working.stop().await;
}

/// A text as long as may be, and one that only its own length keeps from being sent.
#[tokio::test]
async fn an_essay_fits_into_a_message() {
    let scene = Scene::new().await;
    let (_, attempt) = scene.written("essay", &essay(&"a".repeat(20_000))).await;
    let working = scene.main_side();
    scene.until(attempt, &["QUEUED"]).await;
    working.stop().await;
}
