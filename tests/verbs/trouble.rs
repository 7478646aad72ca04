//! Every kind of trouble, as `explain` shows it: the cause, what happens next, and a command that mends it. One
//! screen each, and each command is pasted and does what it says.

use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Answer, DEAD_TOPIC, Router, Stage};
use jiff::SignedDuration;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{action, binary, fits_a_screen, ledger, run, run_beside, seed, shown, stage};

const HOUR: Duration = Duration::from_secs(3600);
const STEP: Duration = Duration::from_millis(50);
/// The machine may be busy.
const STEPS: usize = 1200;

/// The host on which an operator types.
struct Host {
    router: Option<Router>,
    stage: Stage,
}

impl Host {
    /// Rows stay as they were seeded: the daemon says that it works, and does nothing.
    async fn still(forms: &[Form]) -> Self {
        Self { router: None, stage: stage(forms).await }
    }

    async fn with_daemon(forms: &[Form], extra: &str) -> Self {
        let stage = stage(forms).await;
        let mut router = stage.router(binary(), "router", extra).await.expect("a router");
        router.ready().await.expect("ready");
        Self { router: Some(router), stage }
    }

    async fn type_in(&self, words: &[&str]) -> Answer {
        match &self.router {
            Some(router) => self.stage.ask(binary(), router.config(), words).await.expect("the verb runs"),
            None => run_beside(&self.stage, words).await,
        }
    }

    async fn explained(&self, id: Uuid) -> Value {
        let answer = self.type_in(&["explain", &id.to_string(), "--json"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.json().expect("JSON")
    }

    /// The page is a screen, tells the cause and the command, and is as it was.
    async fn explains(&self, name: &str, id: Uuid, cause: &str, command: &str) {
        let answer = self.type_in(&["explain", &id.to_string()]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        fits_a_screen(&answer.out);
        let words = answer.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(cause) && words.contains(command), "{cause} / {command}:\n{}", answer.out);
        shown(&format!("trouble_{name}"), &answer.out);
    }

    /// Pastes the commands of this program that the page names, in their order; returns what they said.
    async fn paste(&self, id: Uuid) -> Vec<(String, Answer)> {
        let explanation = self.explained(id).await;
        let mut said = Vec::new();
        for line in explanation["remedy"].as_array().expect("remedy").iter().filter_map(Value::as_str) {
            let Some((_, command)) = line.split_once("maple-router ") else { continue };
            if line.contains("systemctl") || line.contains("journalctl") {
                continue;
            }
            let words: Vec<&str> =
                command.split(' ').map(|word| if word == "TEXT" { "mended" } else { word }).collect();
            said.push((command.to_owned(), self.type_in(&words).await));
        }
        assert!(!said.is_empty(), "no command: {explanation:#}");
        said
    }

    /// Pastes the commands, all of which must end well.
    async fn mend(&self, id: Uuid) {
        for (command, answer) in self.paste(id).await {
            assert_eq!(answer.code, Some(0), "{command}: {answer:?}");
        }
    }

    async fn submit(&self, row: SubmissionSeed) -> Uuid {
        let id = seed(&self.stage, row).await.id;
        self.stage.publish(id, "finalized").expect("published");
        id
    }

    async fn until(&self, what: &str, so: impl AsyncFn() -> bool) {
        for _ in 0..STEPS {
            if so().await {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        panic!("no {what}:\n{}", self.router.as_ref().map(Router::log).unwrap_or_default());
    }

    async fn status(&self, id: Uuid) -> String {
        let client = self.stage.database.superuser().await.expect("superuser");
        let sql = "SELECT status::text FROM submissions WHERE id = $1";
        client.query_one(sql, &[&id]).await.expect("the row").get(0)
    }

    async fn comes_to(&self, id: Uuid, status: &str) {
        self.until(status, async || self.status(id).await == status).await;
    }

    /// Waits until the submission has failed, and Slack has confirmed the alert.
    async fn failed(&self, id: Uuid) {
        self.comes_to(id, "failed").await;
        let confirmed = async || ledger(&self.stage, id).await["alert"]["confirmed_at"].is_string();
        self.until("confirmed alert", confirmed).await;
    }
}

fn tried(due: Option<&jiff::Timestamp>, delivery: &Value) -> Value {
    let mut ledger = json!({"v": 1, "attempts": 2, "plan": [action(1, "a@example.org")],
                            "deliveries": {"1|a@example.org": delivery}});
    if let Some(due) = due {
        ledger["next_attempt_at"] = json!(due);
    }
    ledger
}

async fn now(stage: &Stage) -> jiff::Timestamp {
    let client = stage.database.superuser().await.expect("superuser");
    client.query_one("SELECT clock_timestamp()", &[]).await.expect("now").get(0)
}

#[tokio::test]
async fn what_waits_names_what_it_waits_for() {
    let host = Host::still(&[Form::new("contact").mail_to("a@example.org")]).await;
    let stage = &host.stage;
    let backlog = || crate::harness::backlog(stage);

    let scanning = SubmissionSeed::of("contact").age(2 * HOUR).attachment("a.pdf", "pending");
    let scanning = seed(stage, scanning).await.id;
    host.explains("scan", scanning, "1 of 1 attachment still to be scanned", "maple-router mark-attachment")
        .await;
    host.mend(scanning).await;
    assert_eq!(host.explained(scanning).await["readiness"]["state"], "ready");
    assert_eq!(backlog(), 1, "it is announced");

    let lost = seed(stage, SubmissionSeed::of("contact").age(HOUR)).await.id;
    host.explains("never_published", lost, "its event is lost, or nobody receives", "maple-router publish")
        .await;
    assert!(
        host.paste(lost).await.iter().any(|(line, did)| line.starts_with("publish") && did.code == Some(0))
    );
    assert_eq!(backlog(), 2, "it is announced");

    let at = now(stage).await - SignedDuration::from_hours(1);
    let claim = json!({"v": 1, "attempts": 1, "plan": [action(1, "a@example.org")],
        "claim": {"token": "t", "worker": "maple/4711", "at": at, "deadline": at + SignedDuration::from_mins(20)},
        "deliveries": {"1|a@example.org": {"state": "open", "begun": {"token": "t", "at": at}}}});
    let stuck = SubmissionSeed::of("contact").status("processing").age(HOUR).ledger(claim);
    let stuck = seed(stage, stuck).await.id;
    host.explains("stuck", stuck, "has not touched it for longer than 10m", "maple-router release").await;
    host.mend(stuck).await;
    assert_eq!(host.status(stuck).await, "received");

    let doubtful = json!({"state": "open", "doubt": true, "message_id": "<m@x>"});
    let doubtful = seed(stage, SubmissionSeed::of("contact").ledger(tried(None, &doubtful))).await.id;
    host.explains("in_doubt", doubtful, "1 delivery in doubt: perhaps delivered", "maple-router publish")
        .await;
    let before = backlog();
    host.mend(doubtful).await;
    assert_eq!(backlog(), before + 1);

    let due = now(stage).await + SignedDuration::from_secs(290);
    let slow = json!({"state": "open", "error": {"class": "deferred", "stage": "connect", "reply": "connection refused"}});
    let backing_off = seed(stage, SubmissionSeed::of("contact").ledger(tried(Some(&due), &slow))).await.id;
    host.explains(
        "backing_off",
        backing_off,
        "attempt 3 of 5 as soon as it is due",
        "systemctl status postfix",
    )
    .await;
    for (command, answer) in host.paste(backing_off).await {
        assert!(command == "check" && answer.out.contains("relay"), "{command}: {answer:?}");
    }
}

#[tokio::test]
async fn what_failed_names_why_and_its_command_has_it_routed() {
    let forms = [
        Form::new("contact").mail_to("a@example.org"),
        Form::new("refused").mail_to("gone@example.org, a@example.org"),
        Form::new("slow").mail_to("slow@example.org"),
        Form::new("lost").mail_to("lost@example.org"),
        Form::new("silent"),
    ];
    let extra = "[slack]\ngroup_wait = \"1s\"\n[routing]\nin_doubt = \"hold\"";
    let host = Host::with_daemon(&forms, extra).await;
    let rule = |at, to: &str| Rule::at(at).to(to);
    let relay = &host.stage.relay;
    relay.rule(rule(At::Rcpt, "gone@example.org").reply("550 5.1.1 no such user"));
    relay.rule(rule(At::Rcpt, "slow@example.org").reply("451 4.2.0 mailbox busy"));
    relay.rule(rule(At::AfterDot, "lost@example.org").disconnect());

    let seed = |form: &str| SubmissionSeed::of(form);
    let infected = host.submit(seed("contact").attachment("x.exe", "infected")).await;
    let refused = host.submit(seed("refused")).await;
    let exhausted = host.submit(seed("slow")).await;
    let on_hold = host.submit(seed("lost")).await;
    let nobody = host.submit(seed("silent")).await;
    let damaged = host.submit(seed("contact").ledger(json!({"v": 1, "attempts": "many"}))).await;
    for id in [infected, refused, exhausted, on_hold, nobody, damaged] {
        host.failed(id).await;
    }
    host.explains("infected", infected, "the scan found malware in 1 attachment", "rb-008").await;
    host.explains("refused", refused, "RCPT 550 5.1.1 no such user", "maple-router replay").await;
    host.explains("dead_lettered", exhausted, "RCPT 451 4.2.0 mailbox busy", "maple-router replay").await;
    host.explains("held", on_hold, "perhaps delivered, and on hold", "maple-router replay").await;
    host.explains("no_actions", nobody, "its form had no actions", "maple-router replay").await;
    host.explains("damaged", damaged, "its ledger could not be read", "maple-router replay").await;
    let letters = host.type_in(&["dlq", "list", "--json"]).await.json().expect("JSON");
    assert!(letters.as_array().expect("letters").iter().any(|letter| letter["id"] == exhausted.to_string()));

    // Mended, each by what its page says.
    relay.clear_rules();
    devkit::forms::load_into(&host.stage.database, &[Form::new("silent").mail_to("b@example.org")])
        .await
        .expect("reloaded");
    for id in [infected, refused, on_hold, nobody, damaged, exhausted] {
        for (command, answer) in host.paste(id).await {
            assert!(answer.code == Some(0) || command == "check", "{command}: {answer:?}");
        }
        host.comes_to(id, "routed").await;
    }
}

#[tokio::test]
async fn a_breaker_is_shown_as_the_daemon_has_it() {
    let host = Host::with_daemon(&[Form::new("contact").mail_to("a@example.org")], "").await;
    host.stage.relay.stop().await;
    let first = host.submit(SubmissionSeed::of("contact")).await;
    let is_open = async || host.explained(first).await["daemon"]["state"] == "breaker_open";
    host.until("open breaker", is_open).await;
    let waiting = host.submit(SubmissionSeed::of("contact")).await;
    host.explains(
        "breaker_open",
        waiting,
        "the breaker is open: the relay (Postfix) failed",
        "systemctl status postfix",
    )
    .await;
    let [(command, answer)] = &host.paste(waiting).await[..] else { panic!("one command") };
    assert!(command == "check" && answer.code == Some(1), "{answer:?}");
    let named = answer.out.lines().any(|line| line.contains("relay") && line.contains("refused"));
    assert!(named, "{answer:?}");
    host.stage.relay.restart().await.expect("the relay is back");
    host.comes_to(waiting, "routed").await;
    assert_eq!(host.explained(waiting).await["daemon"]["state"], "not_asked");
}

#[tokio::test]
async fn a_pause_is_shown_and_ended_by_the_command() {
    let host = Host::with_daemon(&[Form::new("contact us").mail_to("a@example.org")], "").await;
    let paused = host.type_in(&["pause", "--form", "contact us", "--reason", "the press office moves"]).await;
    assert_eq!(paused.code, Some(0), "{paused:?}");
    host.until("pause", async || {
        host.router.as_ref().is_some_and(|r| r.log().contains("\"event\":\"paused\""))
    })
    .await;
    let id = host.submit(SubmissionSeed::of("contact us")).await;
    host.explains("paused", id, "is paused since", "maple-router resume --form 'contact us' --reason TEXT")
        .await;
    // The command as a shell reads it.
    let explanation = host.explained(id).await;
    let config = host.router.as_ref().expect("a router").config().display().to_string();
    for n in [0, 1] {
        let line = explanation["remedy"][n].as_str().expect("a command").replace("TEXT", "moved");
        let (_, arguments) = line.split_once("maple-router ").expect("a command");
        let line = format!("{} --config {config} {arguments}", binary().display());
        let shell = tokio::process::Command::new("sh").args(["-c", &line]).output().await.expect("a shell");
        assert!(shell.status.success(), "{shell:?}");
        let resumed =
            async || host.router.as_ref().is_some_and(|r| r.log().contains("\"event\":\"resumed\""));
        host.until("end of the pause", resumed).await;
    }
    host.comes_to(id, "routed").await;
}

#[tokio::test]
async fn without_a_daemon_that_is_the_cause() {
    let stage = stage(&[Form::new("contact").mail_to("a@example.org")]).await;
    let id = seed(&stage, SubmissionSeed::of("contact").age(HOUR)).await.id;
    let answer = run(&stage, &["explain", &id.to_string()]).await;
    fits_a_screen(&answer.out);
    assert!(answer.out.contains("no daemon answers on 127.0.0.1:"), "{answer:?}");
    shown("trouble_no_daemon", &answer.out);
}

#[tokio::test]
async fn an_id_that_is_no_submissions_is_looked_for_elsewhere() {
    let host = Host::with_daemon(&[Form::new("contact").mail_to("a@example.org")], "").await;
    let early = Uuid::from_u128(0x0190_f5b0_7a4c_7c3e_9a51_2f6d_1f0a_9b11);
    let payload = json!({"submission_id": early}).to_string().into_bytes();
    let attributes =
        [("type", "routing.ready"), ("v", "1"), ("CloudPubSubDeadLetterSourceDeliveryCount", "5")];
    host.stage.broker.publish(DEAD_TOPIC, payload, attributes).expect("published");
    let letters = async || host.type_in(&["dlq", "list", "--json"]).await.json().expect("JSON");
    host.until("record", async || letters().await[0]["id"].is_string()).await;
    let letter = letters().await[0]["id"].as_str().expect("an id").to_owned();
    let answer = host.type_in(&["explain", &early.to_string()]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(
        answer.err.contains("its event became a dead letter") && answer.err.contains(&letter),
        "{answer:?}"
    );
    let answer = host.type_in(&["explain", &letter]).await;
    assert!(answer.err.contains("is a dead letter, not a submission"), "{answer:?}");
    assert!(answer.err.contains(&format!("maple-router dlq show {letter}")), "{answer:?}");
    assert_eq!(host.type_in(&["dlq", "show", &letter]).await.code, Some(0));
    // The row came after its event: what is open names the letter, and the command takes it from there.
    let client = host.stage.database.superuser().await.expect("superuser");
    let pending = SubmissionSeed::of("contact").attachment("a.pdf", "pending");
    let late = seed(&host.stage, pending).await.id;
    // Attachments follow their submission's id.
    for sql in [
        "ALTER TABLE attachments DROP CONSTRAINT attachments_submission_id_fkey",
        &format!("UPDATE attachments SET submission_id = '{early}' WHERE submission_id = '{late}'"),
        &format!("UPDATE submissions SET id = '{early}' WHERE id = '{late}'"),
    ] {
        client.execute(sql, &[]).await.expect("moved");
    }
    let explanation = host.explained(early).await;
    assert!(
        explanation["why"]
            .as_str()
            .is_some_and(|why| why.contains("became a dead letter (unknown submission)")),
        "{explanation:#}"
    );
    assert_eq!(explanation["dead_letter"]["id"], letter);
    let redrive = format!("maple-router dlq redrive {letter} --reason TEXT");
    assert!(explanation["remedy"].to_string().contains(&redrive), "{explanation:#}");
    host.mend(early).await;
    assert_eq!(letters().await, json!([]));
}
