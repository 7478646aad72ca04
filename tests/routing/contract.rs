//! A database that answers and is not what it was (protocol, "Outages"): a lost right to see or to write stops everybody,
//! spends nobody's attempt, is reported once by name, and ends by itself. Nothing is sent meanwhile (P10).

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed, scan};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Scene, lines};

const SOON: &str = "[slack]\ngroup_wait = \"1s\"";
const HIDE: &str = "DROP POLICY attachments_app ON attachments";
const SHOW: &str =
    "CREATE POLICY attachments_app ON attachments FOR ALL TO forms_app USING (true) WITH CHECK (true)";

/// Messages about the database, first and last: what was said at its start, and how often its end was reported.
struct Reports {
    first: Vec<String>,
    over: usize,
}

fn reports(scene: &Scene) -> Reports {
    let about = |text: &String| text.contains("is not what the data contract says");
    let messages = scene.stage.slack.messages();
    let texts = messages.iter().map(|message| message.visible_text().clone()).filter(about);
    let (over, first): (Vec<_>, Vec<_>) = texts.partition(|text| text.contains("over, after"));
    Reports { first, over: over.len() }
}

async fn alter(scene: &Scene, sql: &str) {
    scene.stage.database.alter(sql).await.expect(sql);
}

/// Waits until it is reported for the `nth` time, in the journal and in Slack, and the gate is shut.
async fn opened(scene: &Scene, nth: usize, names: &[&str]) {
    let openings = || {
        let opening = |line: &Value| line["event"] == "breaker_open" && line["dependency"] == "contract";
        lines(&scene.router).into_iter().filter(opening).count()
    };
    scene.until("opening", async || openings() == nth).await;
    scene.until("message", async || reports(scene).first.len() == nth).await;
    let message = reports(scene).first.pop().expect("a message");
    for name in names.iter().chain(&["maple-router check", "section breaker_contract"]) {
        assert!(message.contains(name), "{name}: {message}");
    }
    let (code, body) = scene.router.get("/-/ready").await.expect("asked");
    assert!(code == 503 && body.contains("\"contract\""), "{code} {body}");
}

/// Waits until its end was reported for the `nth` time, and nothing was reported twice.
async fn over(scene: &Scene, nth: usize) {
    scene.until("end", async || reports(scene).over == nth).await;
    assert_eq!(reports(scene).first.len(), nth);
    let closed = lines(&scene.router).iter().filter(|line| line["event"] == "breaker_closed").count();
    assert_eq!(closed, nth, "{}", scene.router.log());
}

fn recipients(scene: &Scene) -> Vec<String> {
    let mails = scene.stage.relay.mails();
    let mut all: Vec<String> = mails.iter().flat_map(|mail| mail.recipients.clone()).collect();
    all.sort();
    all
}

async fn attachments_that_may_be_hidden_stop_everybody_until_they_are_seen(source: Source) {
    let to = |who: &str| Form::new(who).mail_to(&format!("{who}@x.test"));
    let forms = [to("slow"), to("begun"), to("infected"), to("pending"), to("clean"), to("plain")];
    let extra = format!("{SOON}\n[smtp]\nlanes = 1");
    let scene = Scene::with(StageOptions::of(source), &forms, &extra).await;
    // One is claimed, and waits for the connection behind a slow mail.
    scene.stage.relay.rule(Rule::at(At::AfterDot).to("slow@x.test").delay(Duration::from_secs(2)));
    let slow = scene.submit(&SubmissionSeed::of("slow")).await.id;
    scene.await_row(slow, "begun", |row| !row.entry("1|slow@x.test")["begun"].is_null()).await;
    let first = scene.submit(&SubmissionSeed::of("begun").attachment("a.pdf", "clean")).await;
    scene.await_row(first.id, "claim", |row| row.status == "processing").await;
    alter(&scene, HIDE).await;
    let mut seeded = vec![first];
    for (form, status) in
        [("infected", "infected"), ("pending", "pending"), ("clean", "clean"), ("plain", "")]
    {
        let seed = SubmissionSeed::of(form);
        let seed = if status.is_empty() { seed } else { seed.attachment("a.pdf", status) };
        // The backend's role cannot add what it may not see.
        let one = seed.insert(&scene.eyes).await.expect("a row");
        scene.stage.announce(one.id, "finalized").expect("published");
        seeded.push(one);
    }
    opened(&scene, 1, &["sees no attachment", "CREATE POLICY", "ON attachments FOR SELECT TO forms_app"])
        .await;
    assert_eq!(scene.ended(slow).await.status, "routed", "what was begun before is recorded");
    for one in &seeded {
        let row = scene.await_row(one.id, "release", |row| row.status == "received").await;
        assert_eq!(row.attempts(), 0, "{row:?}");
    }
    // The slow mail alone: its intent came before the discovery, and the report after that.
    assert_eq!(recipients(&scene), ["slow@x.test"]);
    alter(&scene, SHOW).await;
    let [first, infected, pending, clean, plain] = seeded.try_into().expect("five");
    for one in [first.id, clean.id, plain.id] {
        let row = scene.ended(one).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    }
    let row = scene.ended(infected.id).await;
    assert_eq!(
        (row.status.as_str(), row.reason(), row.attempts()),
        ("failed", Some("infected"), 0),
        "{row:?}"
    );
    scan(&scene.eyes, pending.attachments[0], "infected").await.expect("scanned");
    scene.publish(pending.id);
    let row = scene.ended(pending.id).await;
    assert_eq!((row.status.as_str(), row.reason()), ("failed", Some("infected")), "{row:?}");
    assert_eq!(recipients(&scene), ["begun@x.test", "clean@x.test", "plain@x.test", "slow@x.test"]);
    over(&scene, 1).await;
    scene.stop().await;
}

/// The object, what takes a right from `forms_app`, what gives it back, and what people are notified of.
const RIGHTS: [(&str, &str, &str, &str); 4] = [
    (
        "the trail",
        "REVOKE INSERT ON audit_log FROM forms_app",
        "GRANT INSERT ON audit_log TO forms_app",
        "lacks INSERT on audit_log",
    ),
    (
        "the submissions",
        "REVOKE UPDATE ON submissions FROM forms_app",
        "GRANT UPDATE ON submissions TO forms_app",
        "lacks UPDATE on submissions",
    ),
    (
        "a table that is away",
        "ALTER TABLE templates RENAME TO gone",
        "ALTER TABLE gone RENAME TO templates",
        "table templates is missing",
    ),
    (
        "every submission, hidden",
        "DROP POLICY submissions_app ON submissions",
        "CREATE POLICY submissions_app ON submissions FOR ALL TO forms_app USING (true) WITH CHECK (true)",
        "rows of submissions",
    ),
];

async fn a_right_that_is_away_for_a_while_fails_nobody_and_spends_nothing(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test").mail_to("b@x.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, SOON).await;
    let mut ids: Vec<Uuid> = Vec::new();
    for (nth, (what, take, give, named)) in RIGHTS.into_iter().enumerate() {
        // Some mails are in dialogue: what is sent by then has to be recorded in the end.
        scene.stage.relay.rule(Rule::at(At::AfterDot).times(2).delay(Duration::from_secs(1)));
        let first = scene.submit(&SubmissionSeed::of("f")).await.id;
        scene.await_row(first, "begun", |row| !row.entry("1|a@x.test")["begun"].is_null()).await;
        alter(&scene, take).await;
        let mut these = vec![first];
        for _ in 0..4 {
            // The backend's own role still can, whichever it is.
            let id = SubmissionSeed::of("f").insert(&scene.eyes).await.expect("a row").id;
            scene.stage.announce(id, "finalized").expect("published");
            these.push(id);
        }
        let mends = if give.starts_with("GRANT") { give } else { named };
        opened(&scene, nth + 1, &[named, mends]).await;
        for id in &these {
            let row = scene.row(*id).await;
            assert!(matches!(row.status.as_str(), "received" | "processing" | "routed"), "{what}: {row:?}");
        }
        alter(&scene, give).await;
        for id in &these {
            let row = scene.ended(*id).await;
            assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{what}: {row:?}");
            assert_eq!(row.entry("1|a@x.test").get("doubt"), None, "{what}: {row:?}");
        }
        ids.extend(these);
        over(&scene, nth + 1).await;
    }
    assert_eq!(scene.stage.relay.mails().len(), 2 * ids.len(), "each once");
    for id in ids {
        assert_eq!(scene.audited(id).await, ["email_sent", "email_sent", "submission_routed"], "{id}");
    }
    scene.stop().await;
}

/// One row's own trouble looks like a lost right, and is none: nobody else waits, and no message names the database.
#[tokio::test]
async fn a_row_that_a_trigger_refuses_is_no_fault_of_the_contract() {
    let scene = Scene::with(StageOptions::default(), &[Form::new("f").mail_to("a@x.test")], SOON).await;
    let odd = scene.unannounced(&SubmissionSeed::of("f")).await.id;
    let trigger = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE insufficient_privilege USING MESSAGE = 'not this one'; END $$;
         CREATE TRIGGER refuse BEFORE UPDATE ON submissions FOR EACH ROW WHEN (OLD.id = '{odd}') EXECUTE FUNCTION refuse()"
    );
    alter(&scene, &trigger).await;
    scene.publish(odd);
    let named = "it cannot be claimed: the database refuses it (SQLSTATE 42501, function refuse)";
    scene
        .await_line("refusal", |line| line["event"] == "set_aside" && line.to_string().contains(named))
        .await;
    for _ in 0..3 {
        let id = scene.submit(&SubmissionSeed::of("f")).await.id;
        assert_eq!(scene.ended(id).await.status, "routed");
    }
    assert!(
        lines(&scene.router).iter().all(|line| line["event"] != "breaker_open"),
        "{}",
        scene.router.log()
    );
    alter(&scene, "DROP TRIGGER refuse ON submissions").await;
    assert_eq!(scene.ended(odd).await.ledger["attempts"], json!(1));
    assert!(reports(&scene).first.is_empty());
    scene.stop().await;
}

devkit::with_either_source!(
    attachments_that_may_be_hidden_stop_everybody_until_they_are_seen,
    a_right_that_is_away_for_a_while_fails_nobody_and_spends_nothing,
);
