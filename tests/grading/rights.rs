//! Each side is denied the other's, both ways: schemas, queues, and what was sent.

use serde_json::json;
use uuid::Uuid;

use crate::harness::Scene;

#[tokio::test]
async fn each_role_is_denied_the_other_side() {
    let scene = Scene::new().await;
    let (submission, attempt) = scene.written("essay", "a text").await;
    let request = "mq.grading_request";
    let callback = "mq.grading_callback";
    let of_assessment = [
        "questions",
        "profiles",
        "submissions",
        "events",
        "callbacks",
        "results",
        "progress",
        "unborn",
        "tickets",
    ];
    let of_grading = ["jobs", "events", "steps", "spent", "calibrations", "forgotten"];
    let mut denied: Vec<(&str, String)> = Vec::new();
    // The grader sees neither submissions nor people, nor what the main side makes of them.
    for table in ["submissions", "submission_fields", "attachments", "audit_log", "forms"] {
        denied.push(("maple_grader", format!("SELECT * FROM {table}")));
    }
    for table in ["router.outbox", "router.grey_queue", "router.grey_queue_causes"] {
        denied.push(("maple_grader", format!("SELECT * FROM {table}")));
    }
    for table in of_assessment {
        denied.push(("maple_grader", format!("SELECT * FROM assessment.{table}")));
        denied.push(("maple_grader", format!("DELETE FROM assessment.{table}")));
    }
    for call in [
        format!("assessment.gate('{submission}', 'essay', now())"),
        format!("assessment.regrade('{submission}', 'x', 'y')"),
        format!("assessment.release('{submission}', 'x', 'y')"),
        format!("assessment.lock_attempt('{attempt}')"),
        "assessment.births(1)".to_owned(),
    ] {
        denied.push(("maple_grader", format!("SELECT {call}")));
    }
    // The main side, the desk and the publisher see nothing of the grader's.
    for role in ["forms_app", "maple_desk", "forms_loader", "forms_readonly"] {
        for table in of_grading {
            denied.push((role, format!("SELECT * FROM grading.{table}")));
            denied.push((role, format!("DELETE FROM grading.{table}")));
        }
        denied.push((role, "SELECT grading.empty_ended('1 day', 1)".to_owned()));
    }
    // A producer reads none of its messages, a consumer changes none of theirs, and neither speaks for the other.
    for (producer, consumer, queue) in
        [("forms_app", "maple_grader", request), ("maple_grader", "forms_app", callback)]
    {
        denied.push((producer, format!("SELECT * FROM {queue}")));
        denied.push((producer, format!("SELECT message_id FROM {queue}")));
        denied.push((producer, format!("DELETE FROM {queue}")));
        denied.push((producer, format!("UPDATE {queue} SET tries = 0")));
        denied.push((
            producer,
            format!("INSERT INTO {queue} (message_id, payload, tries) VALUES (gen_random_uuid(), '{{}}', 1)"),
        ));
        denied.push((consumer, format!("UPDATE {queue} SET payload = '{{}}'")));
        denied.push((consumer, format!("UPDATE {queue} SET at = now()")));
        denied.push((
            consumer,
            format!("INSERT INTO {queue} (message_id, payload) VALUES (gen_random_uuid(), '{{}}')"),
        ));
    }
    // Nor does a side relay, or receive, what is the other's; nobody else does either.
    let ends = |sent: &str, come: &str| {
        [
            format!("SELECT mq.{sent}s_to_send(1, 1)"),
            format!("SELECT mq.{sent}s_sent(ARRAY[]::uuid[])"),
            format!("SELECT mq.{come}_arrived(gen_random_uuid(), '{{}}', now())"),
        ]
    };
    let (of_main, of_grader) = (ends("request", "callback"), ends("callback", "request"));
    for (role, calls) in [
        ("maple_grader", &of_main),
        ("forms_app", &of_grader),
        ("forms_loader", &of_main),
        ("forms_loader", &of_grader),
        ("forms_readonly", &of_main),
        ("forms_readonly", &of_grader),
    ] {
        denied.extend(calls.iter().map(|call| (role, call.clone())));
    }
    denied.push(("forms_app", format!("SELECT mq.forget_dead('{submission}')")));
    for role in ["forms_app", "maple_grader"] {
        denied.push((role, "SELECT * FROM mq.grading_dlq".to_owned()));
        denied.push((role, "DELETE FROM mq.grading_dlq".to_owned()));
    }
    for role in ["forms_loader", "forms_readonly"] {
        for queue in [request, callback, "mq.grading_dlq"] {
            denied.push((role, format!("SELECT * FROM {queue}")));
        }
    }
    // Nobody writes what is recorded otherwise than as it was, nor makes attempts.
    for role in ["forms_app", "maple_desk"] {
        for (table, set) in
            [("events", "actor = 'x'"), ("results", "score = 10"), ("callbacks", "at = now()")]
        {
            denied.push((role, format!("UPDATE assessment.{table} SET {set}")));
            denied.push((role, format!("DELETE FROM assessment.{table}")));
        }
        denied.push((role, format!("DELETE FROM assessment.submissions WHERE id = '{attempt}'")));
        denied.push((
            role,
            format!("UPDATE assessment.submissions SET current = false WHERE id = '{attempt}'"),
        ));
        denied.push((
            role,
            format!("UPDATE assessment.submissions SET released_at = now() WHERE id = '{attempt}'"),
        ));
        denied.push((role, "UPDATE assessment.profiles SET gate = false".to_owned()));
        denied.push((role, "UPDATE assessment.questions SET answer_key = '{}'".to_owned()));
        denied.push((role, format!("SELECT assessment.birth('{submission}')")));
        denied.push((role, format!("SELECT * FROM router.evaluate_ungraded_readiness('{submission}')")));
    }
    denied.push(("maple_grader", "UPDATE grading.events SET actor = 'x'".to_owned()));
    denied.push(("maple_grader", "DELETE FROM grading.jobs".to_owned()));
    denied.push(("maple_grader", "UPDATE grading.jobs SET retries = 0, deadline = now()".to_owned()));
    denied.push(("maple_grader", "UPDATE grading.steps SET model = 'x'".to_owned()));
    denied.push(("maple_grader", "UPDATE grading.calibrations SET suffices = true".to_owned()));
    denied.push(("forms_app", "SET ROLE maple_desk".to_owned()));
    denied.push(("forms_app", "SET ROLE maple_grader".to_owned()));
    denied.push(("forms_readonly", "SELECT * FROM assessment.results".to_owned()));
    for (role, sql) in denied {
        let answer = scene.as_role(role, &sql).await;
        assert!(
            answer.as_deref().is_some_and(|answer| answer.starts_with("42501")),
            "{role}: {sql}: {answer:?}"
        );
    }
    assert_eq!(scene.state(attempt).await, "PENDING");
}

#[tokio::test]
async fn each_queue_goes_one_way_and_a_message_sent_twice_is_there_once() {
    let scene = Scene::new().await;
    for (queue, producer, consumer) in
        [("request", "forms_app", "maple_grader"), ("callback", "maple_grader", "forms_app")]
    {
        let id = Uuid::new_v4();
        scene.send(queue, id, &json!({"n": 1})).await;
        let again = format!(
            "INSERT INTO mq.grading_{queue} (message_id, payload) VALUES ('{id}', '{{\"n\": 2}}') ON CONFLICT DO NOTHING"
        );
        assert_eq!(scene.as_role(producer, &again).await, None, "no right to read is needed");
        let taken = format!(
            "BEGIN; SELECT payload FROM mq.grading_{queue} WHERE message_id = '{id}' FOR UPDATE SKIP LOCKED;
             UPDATE mq.grading_{queue} SET tries = tries + 1, available_at = now() WHERE message_id = '{id}'; COMMIT"
        );
        assert_eq!(scene.as_role(consumer, &taken).await, None);
        let stands = format!("SELECT payload->>'n' || ' ' || tries FROM mq.grading_{queue}");
        assert_eq!(scene.one::<String>(&stands).await, "1 1");
        assert_eq!(scene.as_role(consumer, &format!("DELETE FROM mq.grading_{queue}")).await, None);
    }
    // What is dead is counted and named for either side, without what is in it.
    for role in ["forms_app", "maple_grader"] {
        let bury = "INSERT INTO mq.grading_dlq (queue, message_id, payload, reason) VALUES ('request', gen_random_uuid(), '{}', 'odd')";
        assert_eq!(scene.as_role(role, bury).await, None, "{role}");
        assert_eq!(
            scene.as_role(role, "SELECT * FROM mq.depths(); SELECT * FROM mq.dead(10)").await,
            None,
            "{role}"
        );
    }
    assert_eq!(
        scene.count("router.grey_queue WHERE cause = 'grading_message'").await,
        2,
        "a person is told of each"
    );
}
