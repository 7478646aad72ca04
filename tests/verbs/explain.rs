//! `explain`: where a submission stands, why, what happens next and when, and what to do; as JSON and on one screen.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::Stage;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{action, explained, fits_a_screen, run, run_beside, seed, shown, stage, stage_with};

const HOUR: Duration = Duration::from_secs(3600);

fn forms() -> [Form; 2] {
    [Form::new("contact").mail_to("a@example.org, b@example.org"), Form::new("silent")]
}

/// The database's time, moved.
async fn moved(stage: &Stage, seconds: i64) -> Timestamp {
    let client = stage.database.superuser().await.expect("superuser");
    let now: Timestamp = client.query_one("SELECT clock_timestamp()", &[]).await.expect("now").get(0);
    now + SignedDuration::from_secs(seconds)
}

/// The page as text, ids, times and ages made the same everywhere.
async fn page(stage: &Stage, id: Uuid) -> String {
    let answer = run_beside(stage, &["explain", &id.to_string()]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!answer.out.contains(control), "no colours and no controls off a terminal: {:?}", answer.out);
    answer.out
}

/// The history takes the lines that everything else leaves; what is hidden is counted.
#[tokio::test]
async fn a_long_history_leaves_the_rest_its_place_on_the_screen() {
    let stage = stage(&forms()).await;
    let id = seed(&stage, SubmissionSeed::of("contact")).await.id;
    let client = stage.database.superuser().await.expect("superuser");
    for (rows, hidden) in [(9, None), (40, Some(39..49))] {
        let tries = format!(
            "INSERT INTO audit_log (submission_id, form_id, actor, action, detail)
             SELECT '{id}', 'contact', 'a', 'scan_clean', '{{}}' FROM generate_series(1, {rows})"
        );
        client.batch_execute(&tries).await.expect("written");
        let text = page(&stage, id).await;
        fits_a_screen(&text);
        let told = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("and ")?.strip_suffix(" earlier: --json shows all"));
        let told = told.map(|count| count.parse::<usize>().expect("a count"));
        assert_eq!(told.is_some(), hidden.is_some(), "{text}");
        assert!(told.zip(hidden).is_none_or(|(told, hidden)| hidden.contains(&told)), "{text}");
        let shown = text.lines().filter(|line| line.contains("scan_clean")).count();
        assert!(shown >= 2, "{text}");
    }
}

fn finished(reason: &str) -> Value {
    json!({"token": "f", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": reason})
}

#[tokio::test]
async fn a_submission_that_waits_says_for_what() {
    let stage = stage(&forms()).await;
    let fresh = seed(&stage, SubmissionSeed::of("contact")).await.id;
    let explanation = explained(&stage, fresh).await;
    assert_eq!(explanation["next"]["code"], "claim", "{explanation:#}");
    assert_eq!(explanation["readiness"]["state"], "ready");
    assert_eq!(
        (explanation["plan_pinned"].clone(), explanation["plan"].as_array().map(Vec::len)),
        (json!(false), Some(1))
    );
    assert_eq!((explanation["attempts"].clone(), explanation["audit"].clone()), (json!(0), json!([])));
    let when: Timestamp = explanation["next"]["when"].as_str().expect("when").parse().expect("a time");
    let latest = moved(&stage, 960).await;
    assert!(
        when <= latest && when > latest - SignedDuration::from_secs(60),
        "orphan_after and a sweep: {explanation:#}"
    );
    assert_eq!(explanation["remedy"], json!([]), "nothing needs to be done: {explanation:#}");
    let text = page(&stage, fresh).await;
    fits_a_screen(&text);
    shown("fresh", &text);

    let orphan = seed(&stage, SubmissionSeed::of("contact").age(HOUR)).await.id;
    let explanation = explained(&stage, orphan).await;
    assert_eq!(
        explanation["next"]["when"], explanation["now"],
        "the next sweep at the latest: {explanation:#}"
    );
    assert!(
        explanation["remedy"].to_string().contains(&format!("maple-router publish {orphan}")),
        "{explanation:#}"
    );

    let scanning = SubmissionSeed::of("contact").attachment("a.pdf", "clean").attachment("b.pdf", "pending");
    let scanned = seed(&stage, scanning.clone()).await.id;
    let explanation = explained(&stage, scanned).await;
    assert_eq!(explanation["next"]["code"], "scan", "{explanation:#}");
    assert_eq!(explanation["readiness"]["pending"], 1);
    shown("scanning", &page(&stage, scanned).await);
    let late = seed(&stage, scanning.age(2 * HOUR)).await;
    let explanation = explained(&stage, late.id).await;
    let expected = format!("mark-attachment {} --clean", late.attachments[1]);
    assert!(explanation["remedy"].to_string().contains(&expected), "{explanation:#}");

    let infected = seed(&stage, SubmissionSeed::of("contact").attachment("x.exe", "infected")).await.id;
    let explanation = explained(&stage, infected).await;
    assert_eq!(explanation["next"]["code"], "fail", "{explanation:#}");
    assert!(explanation["remedy"].to_string().contains("rb-008"), "{explanation:#}");
    shown("infected", &page(&stage, infected).await);

    let silent = seed(&stage, SubmissionSeed::of("silent")).await.id;
    let explanation = explained(&stage, silent).await;
    assert!(explanation["why"].as_str().expect("why").contains("no actions"), "{explanation:#}");
}

#[tokio::test]
async fn a_submission_between_two_attempts_names_the_answer_and_the_time() {
    let stage = stage(&forms()).await;
    let due = moved(&stage, 300).await;
    let ledger = json!({
        "v": 1, "attempts": 2, "resets": 0, "next_attempt_at": due, "plan": [action(1, "a@example.org, b@example.org")],
        "deliveries": {
            "1|a@example.org": {"state": "accepted", "at": "2026-11-01T10:00:00Z", "queue_id": "4XYZ", "message_id": "<m@x>",
                "smtp": {"code": 250, "enhanced": "2.0.0", "reply": "Ok: queued as 4XYZ"}},
            "1|b@example.org": {"state": "open", "doubt": true, "error": {"class": "deferred", "stage": "RCPT",
                "code": 451, "enhanced": "4.3.0", "reply": "mailbox\u{1b}[31m busy\u{9b}2J"}}},
    });
    let id = seed(&stage, SubmissionSeed::of("contact").ledger(ledger)).await.id;
    let explanation = explained(&stage, id).await;
    assert_eq!(explanation["next"]["code"], "attempt", "{explanation:#}");
    let when: Timestamp = explanation["next"]["when"].as_str().expect("when").parse().expect("a time");
    assert_eq!(when, due);
    let why = explanation["why"].as_str().expect("why");
    assert!(why.contains("attempt 2 of 5 left 1 delivery open: RCPT 451 4.3.0 mailbox"), "{why}");
    assert!(why.contains("1 delivery in doubt"), "{why}");
    let open = &explanation["deliveries"][1];
    assert_eq!((open["in_doubt"].clone(), open["code"].clone()), (json!(true), json!(451)));
    assert_eq!(open["recipient"], "b@example.org");
    let text = page(&stage, id).await;
    fits_a_screen(&text);
    shown("released", &text);
    let raw = run(&stage, &["explain", &id.to_string(), "--json"]).await.out;
    assert!(!raw.contains(|c: char| c.is_control() && c != '\n'), "JSON moves no cursor either");
}

#[tokio::test]
async fn a_submission_in_work_names_its_worker_and_when_it_is_taken_back() {
    let stage = stage(&forms()).await;
    let claimed = |age: i64| {
        let stage = &stage;
        async move {
            let at = moved(stage, -age).await;
            let deadline = at + SignedDuration::from_secs(1200);
            json!({"v": 1, "attempts": 1, "plan": [action(1, "a@example.org")],
                   "claim": {"token": "t", "worker": "maple/4711", "at": at, "deadline": deadline},
                   "deliveries": {"1|a@example.org": {"state": "open", "begun": {"token": "t", "at": at}}}})
        }
    };
    let live = SubmissionSeed::of("contact").status("processing").ledger(claimed(0).await);
    let live = seed(&stage, live).await.id;
    let explanation = explained(&stage, live).await;
    assert_eq!(explanation["next"]["code"], "finish", "{explanation:#}");
    assert_eq!(explanation["claim"]["worker"], "maple/4711");
    assert_eq!(explanation["deliveries"][0]["in_doubt"], false, "its own worker is sending it");
    assert_eq!(explanation["remedy"], json!([]));
    shown("processing", &page(&stage, live).await);

    let stuck = SubmissionSeed::of("contact").status("processing").age(HOUR).ledger(claimed(3600).await);
    let stuck = seed(&stage, stuck).await.id;
    let explanation = explained(&stage, stuck).await;
    assert_eq!(
        (&explanation["next"]["code"], &explanation["next"]["when"]),
        (&json!("rescue"), &explanation["now"]),
        "{explanation:#}"
    );
    assert!(
        explanation["why"].as_str().expect("why").contains("has not touched it for longer than 10m"),
        "{explanation:#}"
    );
    assert!(
        explanation["remedy"].to_string().contains(&format!("maple-router release {stuck}")),
        "{explanation:#}"
    );
    shown("stuck", &page(&stage, stuck).await);

    let odd = seed(&stage, SubmissionSeed::of("contact").status("processing")).await.id;
    let explanation = explained(&stage, odd).await;
    assert!(explanation["why"].as_str().expect("why").contains("names no claim"), "{explanation:#}");
}

#[tokio::test]
async fn a_routed_submission_shows_what_the_daemon_did_in_one_screen() {
    let stage = stage(&forms()).await;
    let mut router = stage.router(crate::harness::binary(), "one", "").await.expect("a router");
    router.ready().await.expect("ready");
    let id =
        seed(&stage, SubmissionSeed::of("contact").field("subject", "hello").attachment("a.pdf", "clean"))
            .await
            .id;
    stage.publish(id, "finalized").expect("published");
    for _ in 0..400 {
        if explained(&stage, id).await["status"] == "routed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let explanation = explained(&stage, id).await;
    assert_eq!(explanation["status"], "routed", "{explanation:#}\n{}", router.log());
    assert_eq!(explanation["why"], "the relay accepted every delivery (2 of 2)");
    let actions: Vec<&str> = explanation["audit"]
        .as_array()
        .expect("audit")
        .iter()
        .filter_map(|row| row["action"].as_str())
        .collect();
    assert_eq!(actions, ["email_sent", "email_sent", "submission_routed"]);
    let mail = &stage.relay.mails()[0];
    for delivery in explanation["deliveries"].as_array().expect("deliveries") {
        assert_eq!(delivery["queue_id"], mail.queue_id.as_str(), "{delivery:#}");
        let message_id = delivery["message_id"].as_str().expect("Message-ID").trim_matches(['<', '>']);
        assert_eq!(Some(message_id), mail.message_id.as_deref());
    }
    let text = page(&stage, id).await;
    fits_a_screen(&text);
    assert!(!text.contains("hello"), "no field value: {text}");
    shown("routed", &text);
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

#[tokio::test]
async fn a_failure_says_why_and_what_to_do() {
    let stage = stage(&forms()).await;
    let plan = json!([action(1, "a@example.org, b@example.org; Jane Doe")]);
    let failed = |class: &str| {
        json!({"state": "failed", "at": "2026-11-01T10:00:00Z",
               "error": {"class": class, "stage": "RCPT", "code": 550, "enhanced": "5.1.1", "reply": "no such user"}})
    };
    let refused = json!({"v": 1, "attempts": 1, "plan": plan, "finished": finished("refused"),
        "deliveries": {"1|a@example.org": {"state": "accepted"}, "1|b@example.org": failed("refused"),
                       "1|!1": {"state": "failed", "error": {"class": "refused", "stage": "address", "reply": "has no @"}}}});
    let id = seed(&stage, SubmissionSeed::of("contact").status("failed").ledger(refused)).await.id;
    let explanation = explained(&stage, id).await;
    assert_eq!(
        (explanation["reason"].clone(), explanation["next"]["code"].clone()),
        (json!("refused"), json!("alert")),
        "{explanation:#}"
    );
    let why = explanation["why"].as_str().expect("why");
    assert!(why.contains("2 deliveries refused for good: RCPT 550 5.1.1 no such user"), "{why}");
    assert!(why.contains("1 of 3 deliveries had been accepted"), "{why}");
    let text = page(&stage, id).await;
    fits_a_screen(&text);
    shown("refused", &text);

    let alerted = json!({"v": 1, "attempts": 5, "plan": plan, "finished": finished("exhausted"),
        "alert": {"for": "f", "confirmed_at": "2026-11-01T10:01:00Z"},
        "deliveries": {"1|a@example.org": failed("deferred"), "1|b@example.org": {"state": "failed", "doubt": true}}});
    let id = seed(&stage, SubmissionSeed::of("contact").status("failed").ledger(alerted)).await.id;
    let explanation = explained(&stage, id).await;
    let why = explanation["why"].as_str().expect("why");
    assert!(why.contains("5 attempts spent, 2 deliveries still open"), "{why}");
    assert!(why.contains("1 delivery perhaps delivered all the same"), "{why}");
    assert!(
        explanation["next"]["what"]
            .as_str()
            .expect("what")
            .contains("Slack took its alert at 2026-11-01 10:01:00Z"),
        "{explanation:#}"
    );

    let by_scanner = SubmissionSeed::of("contact").status("failed").attachment("x.exe", "infected");
    let id = seed(&stage, by_scanner).await.id;
    let explanation = explained(&stage, id).await;
    assert!(
        explanation["why"].as_str().expect("why").contains("the scan worker failed it"),
        "{explanation:#}"
    );
}

#[tokio::test]
async fn a_ledger_that_is_not_believed_is_said_to_be_so() {
    let stage = stage(&forms()).await;
    let damaged = json!({"v": 1, "attempts": "many"});
    let id = seed(&stage, SubmissionSeed::of("contact").ledger(damaged.clone())).await.id;
    let explanation = explained(&stage, id).await;
    assert_eq!(explanation["next"]["code"], "fail", "{explanation:#}");
    assert!(explanation["ledger_fault"].as_str().expect("fault").contains("damaged"), "{explanation:#}");
    shown("damaged", &page(&stage, id).await);
    for status in ["processing", "routed", "failed"] {
        for ledger in [damaged.clone(), json!([]), json!("x"), json!(null)] {
            let id = seed(&stage, SubmissionSeed::of("contact").status(status).ledger(ledger)).await.id;
            let explanation = explained(&stage, id).await;
            assert!(
                explanation["why"].as_str().expect("why").contains("damaged"),
                "{status} {explanation:#}"
            );
        }
    }
    let newer = seed(&stage, SubmissionSeed::of("contact").ledger(json!({"v": 9, "plan": 3}))).await.id;
    let explanation = explained(&stage, newer).await;
    assert_eq!(explanation["next"]["code"], "upgrade", "{explanation:#}");
    assert!(explanation["why"].as_str().expect("why").contains("version 9"), "{explanation:#}");
    shown("newer", &page(&stage, newer).await);
    let purged = seed(&stage, SubmissionSeed::of("contact").status("purged")).await.id;
    let explanation = explained(&stage, purged).await;
    assert_eq!(explanation["next"]["code"], "nothing", "{explanation:#}");
    shown("purged", &page(&stage, purged).await);
}

#[tokio::test]
async fn a_document_that_no_parser_takes_stops_no_verb() {
    let stage = stage(&forms()).await;
    let client = stage.database.superuser().await.expect("superuser");
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    for text in ["{\"number\": 1e400}", &deep] {
        let seeded = seed(&stage, SubmissionSeed::of("contact").attachment("a.pdf", "pending")).await;
        let id = seeded.id;
        let sql = "UPDATE submissions SET routing_result = $2::text::jsonb WHERE id = $1";
        client.execute(sql, &[&id, &text]).await.expect("stored");
        let sql = "INSERT INTO audit_log (actor, action, submission_id, detail)
                   VALUES ('x', 'submission_route_failed', $1, jsonb_build_object('original', $2::text::jsonb))";
        client.execute(sql, &[&id, &text]).await.expect("audited");
        let sql = "UPDATE submissions SET retention_expires_at = 'infinity' WHERE id = $1";
        client.execute(sql, &[&id]).await.expect("kept for ever");
        let explanation = explained(&stage, id).await;
        assert!(
            explanation["ledger_fault"].as_str().expect("a fault").contains("damaged"),
            "{explanation:#}"
        );
        assert_eq!(explanation["audit"][0]["action"], "submission_route_failed", "{explanation:#}");
        let listed = crate::harness::json_of(&stage, &["list", "--json"]).await;
        assert_eq!(listed[0]["reason"], "ledger unreadable", "{listed:#}");
        assert_eq!(run_beside(&stage, &["status"]).await.code, Some(0));
        let attachment = seeded.attachments[0].to_string();
        let marked = run(&stage, &["mark-attachment", &attachment, "--clean"]).await;
        assert_eq!(marked.code, Some(0), "{marked:?}");
        let sql = "UPDATE submissions SET retention_expires_at = NULL WHERE id = $1";
        client.execute(sql, &[&id]).await.expect("kept for ever");
        assert_eq!(run(&stage, &["links", &id.to_string(), "--json"]).await.code, Some(0));
        assert_eq!(run(&stage, &["render", &id.to_string()]).await.code, Some(1));
    }
}

#[tokio::test]
async fn an_audit_log_this_role_cannot_read_is_not_shown_as_empty() {
    let stage = stage_with(&forms(), false).await;
    let id = seed(&stage, SubmissionSeed::of("contact")).await.id;
    let explanation = explained(&stage, id).await;
    assert_eq!(explanation["audit"], Value::Null, "{explanation:#}");
    assert_eq!(explanation["audit_note"], "audit not readable with this role");
    assert!(page(&stage, id).await.contains("audit not readable with this role"));
}

#[tokio::test]
async fn every_command_that_is_advised_exists() {
    let stage = stage(&forms()).await;
    for (status, reason) in
        [("failed", "refused"), ("failed", "exhausted"), ("failed", "no_actions"), ("received", "")]
    {
        let ledger =
            if reason.is_empty() { json!({}) } else { json!({"v": 1, "finished": finished(reason)}) };
        let seeded = SubmissionSeed::of("contact").status(status).age(HOUR).ledger(ledger);
        let explanation = explained(&stage, seed(&stage, seeded).await.id).await;
        for line in explanation["remedy"].as_array().expect("remedy").iter().filter_map(Value::as_str) {
            if let Some(command) = line.strip_prefix("maple-router ") {
                let verb = command.split(' ').next().expect("a verb");
                let help = run(&stage, &[verb, "--help"]).await;
                assert_eq!(help.code, Some(0), "{line}");
            }
        }
    }
}

#[tokio::test]
async fn what_cannot_be_explained_ends_as_the_interfaces_say() {
    let stage = stage(&forms()).await;
    let nobody = "0190f5b0-7a4c-7c3e-9a51-2f6d1f0a9b11";
    let answer = run(&stage, &["explain", nobody]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.err.contains(nobody) && answer.out.is_empty(), "{answer:?}");
    assert_eq!(run(&stage, &["explain", "no-uuid"]).await.code, Some(2));
    let down = stage.config("special", 0, "").replace(stage.database.name(), "no_such_database");
    let answer = crate::harness::run_config(&stage, &down, &["explain", nobody]).await;
    assert_eq!(answer.code, Some(78), "a database that is not there is no passing trouble: {answer:?}");
    let socket = stage.database.endpoint().socket_dir.display().to_string();
    let down = stage.config("special", 0, "").replace(&socket, "/nowhere/at/all");
    for verb in [
        vec!["explain", nobody],
        vec!["status"],
        vec!["list"],
        vec!["links", nobody],
        vec!["finalize", nobody],
    ] {
        let answer = crate::harness::run_config(&stage, &down, &verb).await;
        assert_eq!(answer.code, Some(69), "{verb:?} {answer:?}");
        assert!(answer.err.contains("remedy:"), "{answer:?}");
    }
}
