//! `watch` and `tail`: each event is shown as it happens, and not twice.

use std::process::Stdio;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as SmtpStage};
use devkit::stage::Stage;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use uuid::Uuid;

use crate::harness::{binary, run, seed, stage, stage_with};

const PATIENCE: Duration = Duration::from_secs(60);

/// A verb that goes on, and what it says.
struct Follower {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Follower {
    fn new(stage: &Stage, arguments: &[&str]) -> Self {
        let config =
            stage.write_config("follower", &stage.config("follower", 0, "")).expect("a configuration");
        let mut child = Command::new(binary())
            .env_clear()
            .arg("--config")
            .arg(config)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the verb runs");
        let out = BufReader::new(child.stdout.take().expect("its output")).lines();
        let err = BufReader::new(child.stderr.take().expect("its words")).lines();
        Self { child, out, err }
    }

    async fn says(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.out.next_line()).await.expect("a line in time");
        line.expect("text").expect("a line")
    }

    /// The rest of the output, and the exit code.
    async fn ends(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        while let Some(line) =
            tokio::time::timeout(PATIENCE, self.out.next_line()).await.expect("an end in time").expect("text")
        {
            rest.push_str(&line);
            rest.push('\n');
        }
        (rest, self.child.wait().await.expect("an end").code())
    }
}

fn forms() -> [Form; 2] {
    [Form::new("contact").mail_to("a@example.org"), Form::new("press").mail_to("gone@example.org")]
}

#[tokio::test]
async fn a_submission_is_watched_to_its_end() {
    let stage = stage(&forms()).await;
    stage.relay.rule(Rule::at(SmtpStage::Rcpt).to("a@example.org").reply("451 4.3.0 busy").times(1));
    stage.relay.rule(Rule::at(SmtpStage::Rcpt).to("gone@example.org").reply("550 5.1.1 no such user"));
    let waiting = seed(&stage, SubmissionSeed::of("contact").attachment("a.pdf", "pending")).await;
    let refused = seed(&stage, SubmissionSeed::of("press")).await.id;
    let id = waiting.id.to_string();
    let mut watch = Follower::new(&stage, &["watch", &id[..13]]);
    assert_eq!(watch.says().await, format!("{id}  contact"));
    assert!(watch.says().await.ends_with(" submitted"));
    let said = watch.says().await;
    assert!(said.ends_with(" scanning 1 of 1 attachments to be scanned"), "{said}");

    let mut router = stage.router(binary(), "one", "").await.expect("a router");
    router.ready().await.expect("ready");
    let file = waiting.attachments[0].to_string();
    let marked = run(&stage, &["mark-attachment", &file, "--clean"]).await;
    assert_eq!(marked.code, Some(0), "{marked:?}");
    let (said, code) = watch.ends().await;
    let places: Vec<Option<usize>> = [
        "mark-attachment by operator:",
        "tried attempt 1, 1 a@example.org, RCPT 451 4.3.0 busy",
        "email_sent attempt 2, 1 example.org",
        "submission_routed attempt 2",
        "ROUTED",
    ]
    .iter()
    .map(|words| said.find(words))
    .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted() && code == Some(0),
        "{places:?} {code:?}:\n{said}"
    );
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), said.lines().count(), "nothing twice:\n{said}");

    stage.publish(refused, "finalized").expect("published");
    let (said, code) = Follower::new(&stage, &["watch", &refused.to_string(), "--json"]).ends().await;
    let last: Value = serde_json::from_str(said.lines().last().expect("a line")).expect("JSON");
    assert_eq!(
        (code, &last["what"], &last["status"], &last["reason"]),
        (Some(1), &json!("ended"), &json!("failed"), &json!("refused")),
        "{said}"
    );
    assert!(said.contains("no such user"), "{said}");
    let ended = run(&stage, &["watch", &refused.to_string()]).await;
    assert!(
        ended.code == Some(1) && ended.out.contains("FAILED (refused): maple-router explain"),
        "{ended:?}"
    );
    let nobody = run(&stage, &["watch", &Uuid::nil().to_string()]).await;
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}

/// By the backend's index, by the audit log, and by the index where that may not be read.
#[tokio::test]
async fn ends_are_shown_as_they_come_whatever_there_is_to_find_them_by() {
    for (indexed, audited) in [(true, true), (false, true), (true, false)] {
        let stage = stage_with(&forms(), audited).await;
        let owner = stage.database.superuser().await.expect("superuser");
        if !indexed {
            owner.batch_execute("DROP INDEX submissions_status_updated_at_idx").await.expect("dropped");
        }
        let before = seed(&stage, SubmissionSeed::of("contact")).await.id;
        end(&stage, before, "routed").await;
        let mut tail = Follower::new(&stage, &["tail"]);
        let first_line =
            tokio::time::timeout(PATIENCE, tail.err.next_line()).await.expect("in time").expect("text");
        assert!(first_line.is_some_and(|line| line.starts_with("following")), "{indexed} {audited}");
        let mut json = Follower::new(&stage, &["tail", "--form", "press", "--json"]);
        let (one, two) = (
            seed(&stage, SubmissionSeed::of("contact")).await.id,
            seed(&stage, SubmissionSeed::of("press")).await.id,
        );
        end(&stage, one, "routed").await;
        let said = tail.says().await;
        assert!(said.contains(&format!("{one}  routed  contact")), "{indexed} {audited}: {said}");
        // The other one has nothing to say by which it could be known that it follows.
        let mut found = None;
        for _ in 0..60 {
            end(&stage, two, "failed").await;
            if let Ok(line) = tokio::time::timeout(Duration::from_secs(1), json.out.next_line()).await {
                found = line.expect("text");
                break;
            }
        }
        let entry: Value = serde_json::from_str(&found.expect("a line")).expect("JSON");
        assert_eq!(
            (&entry["id"], &entry["status"], &entry["form_id"], &entry["reason"]),
            (&json!(two), &json!("failed"), &json!("press"), &json!("refused")),
            "{indexed} {audited}"
        );
        let said = tail.says().await;
        assert!(
            said.contains(&format!("{two}  failed  press")) && said.ends_with(", refused"),
            "{indexed} {audited}: {said}"
        );
        for mut follower in [tail, json] {
            let pid = follower.child.id().expect("a process").cast_signed();
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGINT)
                .expect("sent");
            let ended = tokio::time::timeout(PATIENCE, follower.child.wait()).await.expect("in time");
            assert_eq!(ended.expect("an end").code(), None, "by the signal");
        }
    }
}

/// Ends one as the daemon does: with its row in the audit log.
async fn end(stage: &Stage, id: Uuid, status: &str) {
    let (action, reason) = match status {
        "routed" => ("submission_routed", Value::Null),
        _ => ("submission_route_failed", json!("refused")),
    };
    let finished = json!({"attempts": 1, "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": status, "reason": reason}});
    let sql = "WITH s AS (
          UPDATE submissions SET status = $2::text::submission_status, routing_result = $3, updated_at = clock_timestamp()
          WHERE id = $1 RETURNING id)
        INSERT INTO audit_log (actor, action, submission_id, detail)
        SELECT 'x', $4::text::audit_action, s.id, jsonb_build_object('attempt', 1, 'reason', $5::jsonb) FROM s";
    let client = stage.database.superuser().await.expect("superuser");
    client.execute(sql, &[&id, &status, &finished, &action, &reason]).await.expect("ended");
}
