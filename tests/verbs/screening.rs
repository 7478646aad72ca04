//! `screening`, as people type it; and what is wrong said with a remedy. Nothing that was entered is ever shown.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::judge::{Mode, ScriptedJudge};
use devkit::postgres::Variant;
use devkit::stage::{Answer, Stage, StageOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{binary, ledger, run, run_with, seed};

/// What somebody entered, and nobody is shown.
const ENTERED: &str = "planted-words-of-a-person";

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora").join(name).to_string_lossy().into_owned()
}

struct Desk {
    stage: Stage,
    extra: String,
}

impl Desk {
    /// Forms `rooms` and `skills`; the publisher is named.
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, screening: true, ..Variant::default() };
        let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::start(options).await.expect("a stage");
        let forms = ["rooms", "skills"].map(|form| Form::new(form).mail_to("a@example.org"));
        devkit::forms::load_into(&stage.database, &forms).await.expect("forms");
        let extra = format!("[forms]\npublisher_url = \"{}\"\n", stage.database.url_as("forms_loader"));
        Self { stage, extra }
    }

    async fn run(&self, arguments: &[&str]) -> Answer {
        self.run_with("", arguments).await
    }

    async fn run_with(&self, more: &str, arguments: &[&str]) -> Answer {
        let arguments = [&["screening"], arguments].concat();
        run_with(&self.stage, &format!("{}{more}", self.extra), &arguments).await
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.run(&[arguments, &["--json"]].concat()).await;
        answer.json().unwrap_or_else(|error| panic!("{arguments:?}: {error}: {answer:?}"))
    }

    async fn sql(&self, sql: &str) {
        let eyes = self.stage.database.superuser().await.expect("superuser");
        eyes.batch_execute(sql).await.expect(sql);
    }

    async fn count(&self, sql: &str) -> i64 {
        let eyes = self.stage.database.superuser().await.expect("superuser");
        eyes.query_one(sql, &[]).await.expect(sql).get(0)
    }

    /// A submission of `rooms`, and its run where it has one.
    async fn submitted(&self) -> (Uuid, Option<Uuid>) {
        let row = SubmissionSeed::of("rooms").field("email", "zoe@example.org").field("message", ENTERED);
        let id = seed(&self.stage, row).await.id;
        let eyes = self.stage.database.superuser().await.expect("superuser");
        let run = eyes
            .query_opt("SELECT id FROM screening.submissions WHERE subject = $1 AND current", &[&id])
            .await
            .expect("a run");
        (id, run.map(|run| run.get(0)))
    }

    /// Puts a run into a state as if the ways there had been taken: no trigger looks.
    async fn put(&self, run: Uuid, state: &str) {
        let ended = matches!(state, "PUBLISHED" | "REJECTED" | "TIER1_FAILED");
        self.sql(&format!(
            "SET session_replication_role = replica;
             UPDATE screening.submissions r SET state = '{state}', digest = screening.digest_of(r.subject),
               content = screening.digest_of(r.subject), state_since = clock_timestamp(),
               ended_at = CASE WHEN {ended} THEN clock_timestamp() END WHERE id = '{run}';
             INSERT INTO screening.submission_state_events (submission_id, from_state, to_state, trigger, actor, actor_type)
             VALUES ('{run}', 'TIER1_SCANNING', '{state}', 'tier1-fail', 'screener@test', 'worker');
             SET session_replication_role = origin"
        ))
        .await;
    }

    /// Its run was blocked by a rule, and routing has failed it for that.
    async fn screened_out(&self) -> (Uuid, Uuid) {
        let (id, run) = self.submitted().await;
        let run = run.expect("its form is screened");
        self.put(run, "TIER1_FAILED").await;
        let ended = r#"{"v": 1, "finished": {"token": "t", "at": "2026-01-01T00:00:00Z", "status": "failed", "reason": "screened_out"}}"#;
        self.sql(&format!(
            "INSERT INTO screening.findings (submission_id, attempt, number, rule, severity, place, times)
             VALUES ('{run}', 1, 1, 'link-userinfo', 'block', 'field message', 2);
             SET session_replication_role = replica;
             UPDATE submissions SET status = 'failed', routing_result = '{ended}' WHERE id = '{id}';
             SET session_replication_role = origin; DELETE FROM router.outbox"
        ))
        .await;
        (id, run)
    }
}

fn refused(answer: &Answer, code: i32, words: &[&str]) {
    assert_eq!(answer.code, Some(code), "{answer:?}");
    for word in words {
        assert!(answer.err.contains(word), "{word}: {answer:?}");
    }
    assert!(!format!("{answer:?}").contains(ENTERED), "{answer:?}");
}

#[tokio::test]
async fn a_form_is_screened_in_shadow_then_enforced_then_no_more() {
    let desk = Desk::new().await;
    let none = desk.run(&["forms"]).await;
    assert!(none.code == Some(0) && none.out.contains("no form is screened"), "{none:?}");
    let shadow = desk.run(&["enable", "rooms", "--profile", "fields"]).await;
    assert!(shadow.code == Some(0) && shadow.out.contains("in shadow: nothing waits"), "{shadow:?}");
    assert!(
        shadow.err.contains("screening_set") && shadow.err.contains("no judge is configured"),
        "{shadow:?}"
    );
    let enforced = desk.run(&["enable", "rooms", "--profile", "fields", "--enforce", "--force-review"]).await;
    assert!(enforced.code == Some(0) && enforced.err.contains("screening.mode is off"), "{enforced:?}");
    let forms = desk.json(&["forms"]).await;
    assert_eq!(
        (&forms[0]["form_id"], &forms[0]["profile"]),
        (&json!("rooms"), &json!("fields")),
        "{forms:#}"
    );
    assert!(forms[0]["enforced_since"].is_string() && forms[0]["force_review"] == true, "{forms:#}");
    let shown = desk.run(&["forms"]).await;
    assert!(shown.out.contains("rooms") && shown.out.contains("each"), "{shown:?}");
    desk.submitted().await;
    let off = desk.run(&["disable", "rooms", "--reason", "closed"]).await;
    assert!(off.code == Some(0) && off.out.contains("1 of its runs are open"), "{off:?}");
    assert!(off.out.contains("go on waiting") && off.err.contains("closed"), "{off:?}");
    refused(
        &desk.run(&["disable", "rooms", "--reason", "r"]).await,
        1,
        &["is not screened", "screening forms"],
    );
    let document = desk.json(&["enable", "rooms", "--profile", "git", "--shadow"]).await;
    assert_eq!(
        document,
        json!({"form_id": "rooms", "profile": "git", "enforced": false, "force_review": false})
    );
    let document = desk.json(&["disable", "rooms", "--reason", "r"]).await;
    assert_eq!(document, json!({"form_id": "rooms", "open_runs": 1, "waited_for": 1}));
    refused(&desk.run(&["enable", "romos", "--profile", "fields"]).await, 1, &["did you mean rooms?"]);
    refused(&desk.run(&["enable", "rooms", "--profile", "odd"]).await, 2, &["known are fields, git"]);
    refused(
        &desk.run(&["enable", "rooms", "--profile", "git", "--shadow", "--enforce"]).await,
        2,
        &["--enforce"],
    );
    refused(&desk.run(&["disable", "rooms"]).await, 2, &["--reason"]);
    let nobody = run(&desk.stage, &["screening", "enable", "rooms", "--profile", "fields"]).await;
    refused(&nobody, 78, &["the publisher's does", "forms.publisher_url"]);
}

#[tokio::test]
async fn runs_are_listed_and_told_without_a_word_of_what_was_entered() {
    let desk = Desk::new().await;
    let none = desk.run(&["list"]).await;
    assert!(none.code == Some(0) && none.out.contains("there is no such run"), "{none:?}");
    let (unscreened, _) = desk.submitted().await;
    desk.run(&["enable", "rooms", "--profile", "fields", "--enforce"]).await;
    let (id, run) = desk.screened_out().await;
    let (open, open_run) = desk.submitted().await;
    let listed = desk.json(&["list"]).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed:#}");
    assert_eq!(
        (&listed[0]["subject"], &listed[0]["state"]),
        (&json!(open), &json!("RECEIVED")),
        "{listed:#}"
    );
    let failed = desk.run(&["list", "--state", "tier1_failed", "--form", "rooms"]).await;
    assert!(failed.out.contains(&id.to_string()) && !failed.out.contains(&open.to_string()), "{failed:?}");
    let some = desk.run(&["list", "--limit", "1"]).await;
    assert!(some.err.contains("only the first 1 are shown"), "{some:?}");
    refused(&desk.run(&["list", "--state", "ODD"]).await, 2, &["known are RECEIVED"]);
    refused(&desk.run(&["list", "--form", "romos"]).await, 1, &["did you mean rooms?"]);

    // By the submission, by the run, and by the beginning of either.
    for named in
        [id.to_string(), run.to_string(), id.to_string()[..13].to_owned(), run.to_string()[..13].to_owned()]
    {
        let shown = desk.run(&["show", &named]).await;
        assert!(shown.code == Some(0) && !shown.out.contains(ENTERED), "{shown:?}");
        for word in [
            "is TIER1_FAILED since",
            "TIER1_SCANNING -> TIER1_FAILED  tier1-fail, by screener@test (worker)",
            "block  link-userinfo  in field message, 2 times",
            "maple-router screening waive rooms link-userinfo --reason false_positive --why TEXT",
            &format!("maple-router screening rescreen {id} --reason TEXT"),
        ] {
            assert!(shown.out.contains(word), "{word}: {}", shown.out);
        }
    }
    desk.sql(&format!(
        r#"INSERT INTO screening.verdicts (submission_id, attempt, asked, profile, content, model, answered, prompt, ruleset, score, injection, concerns)
           VALUES ('{run}', 1, 1, 'fields', repeat('a', 64), 'm-1', 'm-1', 'p', 'r', 72, true,
             '[{{"code": "spam", "severity": "high", "place": "message", "note": "Sells things."}}]')"#
    ))
    .await;
    let document = desk.json(&["show", &run.to_string()]).await;
    assert_eq!((&document["id"], &document["subject"]), (&json!(run), &json!(id)), "{document:#}");
    assert_eq!(document["events"][1]["trigger"], "tier1-fail", "{document:#}");
    assert_eq!(document["findings"][0]["times"], 2, "{document:#}");
    assert_eq!(document["verdicts"][0]["concerns"][0]["note"], "Sells things.", "{document:#}");
    assert!(
        document["next"][0].as_str().is_some_and(|next| next.contains("screening waive")),
        "{document:#}"
    );
    assert!(!document.to_string().contains(ENTERED), "{document:#}");
    let shown = desk.run(&["show", &run.to_string()]).await;
    assert!(shown.out.contains("m-1: score 72; the content speaks to whoever judges it"), "{shown:?}");
    assert!(shown.out.contains("high   spam  in message: Sells things."), "{shown:?}");

    // A person's: the commands that are told are those that decide.
    let open_run = open_run.expect("a run");
    desk.put(open_run, "NEEDS_REVIEW").await;
    let shown = desk.run(&["show", &open.to_string()]).await;
    assert!(shown.out.contains("maple-router review list --cause screening"), "{shown:?}");
    desk.sql(&format!(
        "SELECT router.open_entry('screening', 'concerns', 'screening_run', '{open_run}', 'rooms', 'k', '{{}}')"
    ))
    .await;
    let people = format!(
        "[screening]\nfour_eyes = false\n[desk]\ndatabase_url = \"{}\"\n[desk.users.anna]\nemail = \"anna@example.org\"\nrole = \"reviewer\"\n",
        desk.stage.database.url_as("maple_desk"),
    );
    for (question, state) in [
        ("Who reviews it?", "NEEDS_REVIEW"),
        ("May it be wanted?", "TIER3_REVIEW"),
        ("Is it wanted?", "PUBLISHED"),
    ] {
        let document = desk.json(&["show", &open.to_string()]).await;
        let mut next = document["next"].as_array().expect("what follows").iter().filter_map(Value::as_str);
        let told = next.find_map(|next| next.strip_prefix(question));
        let line = told.expect("the command").trim().replace("NAME", "anna");
        let command: Vec<&str> = line.split(' ').skip(1).collect();
        let decided = run_with(&desk.stage, &people, &command).await;
        assert_eq!(decided.code, Some(0), "{line}: {decided:?}");
        let document = desk.json(&["show", &open.to_string()]).await;
        assert_eq!(document["state"], state, "{document:#}");
    }
    let shown = desk.run(&["show", &open.to_string()]).await;
    assert!(shown.out.contains("TIER3_REVIEW -> PUBLISHED  reviewer-approve, by operator:"), "{shown:?}");
    refused(&desk.run(&["show", &unscreened.to_string()]).await, 1, &["has no run", "screening forms"]);
    refused(&desk.run(&["show", &Uuid::nil().to_string()]).await, 1, &["there is no submission"]);
    refused(&desk.run(&["show", "odd"]).await, 2, &["first 4 digits"]);
}

#[tokio::test]
async fn what_was_kept_out_is_screened_again_and_open_in_one_step() {
    let desk = Desk::new().await;
    let (before, _) = desk.submitted().await;
    let again =
        async |id: Uuid| desk.run(&["rescreen", &id.to_string(), "--reason", "a member wrote it"]).await;
    refused(&again(before).await, 1, &["is not screened", "screening enable rooms"]);
    desk.run(&["enable", "rooms", "--profile", "fields", "--enforce"]).await;
    let (id, run) = desk.screened_out().await;
    let done = desk.json(&["rescreen", &run.to_string(), "--reason", "a member wrote it"]).await;
    assert_eq!((&done["submission_id"], &done["replayed"]), (&json!(id), &json!(true)), "{done:#}");
    let fresh = done["run_id"].as_str().expect("a run").to_owned();
    let document = desk.json(&["show", &id.to_string()]).await;
    assert_eq!((&document["id"], &document["run"]), (&json!(fresh), &json!(2)), "{document:#}");
    let status = format!("SELECT count(*) FROM submissions WHERE id = '{id}' AND status = 'received'");
    assert_eq!(desk.count(&status).await, 1, "open again");
    let noted = &ledger(&desk.stage, id).await["overrides"][0];
    assert_eq!(
        (&noted["verb"], &noted["reason"]),
        (&json!("replay"), &json!("a member wrote it")),
        "{noted:#}"
    );
    let old = desk.run(&["show", &run.to_string()]).await;
    assert!(old.out.contains("another run took its place"), "{old:?}");
    // It is open now: there is no third.
    refused(&again(id).await, 1, &[&fresh, "is open", "screening show"]);
    // From before the form was screened: it can be, now.
    let first = again(before).await;
    assert!(first.code == Some(0) && first.out.contains("is screened again"), "{first:?}");
    assert!(first.err.contains("rescreened") && first.err.contains("a member wrote it"), "{first:?}");
    refused(&again(Uuid::nil()).await, 1, &["there is no submission"]);
    refused(&desk.run(&["rescreen", &id.to_string()]).await, 2, &["--reason"]);
    desk.sql(&format!("SET session_replication_role = replica; UPDATE submissions SET status = 'purged' WHERE id = '{before}'")).await;
    refused(&again(before).await, 1, &["is emptied", "receipts show"]);
    // What cannot be routed again is not screened again either.
    let (infected, kept) = desk.screened_out().await;
    desk.sql(&format!(
        "SET session_replication_role = replica;
         INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status)
         VALUES ('{infected}', 'x', 'b', 'o', 'infected')"
    ))
    .await;
    refused(&again(infected).await, 1, &["nothing was done", "explain"]);
    let current = format!("SELECT count(*) FROM screening.submissions WHERE id = '{kept}' AND current");
    assert_eq!(desk.count(&current).await, 1, "nothing was done");
}

#[tokio::test]
async fn a_rule_is_waived_by_its_name_and_blocks_again() {
    let desk = Desk::new().await;
    desk.run(&["enable", "rooms", "--profile", "fields"]).await;
    let waive = |rule: &'static str| {
        ["waive", "rooms", rule, "--reason", "false_positive", "--why", "ours", "--place", "field message"]
    };
    let none = desk.run(&["waivers"]).await;
    assert!(none.out.contains("no rule is waived"), "{none:?}");
    let done = desk.run(&waive("link-userinfo")).await;
    assert!(done.code == Some(0) && done.out.contains("screening waive --end 1"), "{done:?}");
    assert!(done.err.contains("screening_set") && done.err.contains("link-userinfo"), "{done:?}");
    refused(&desk.run(&waive("link-userinfo")).await, 1, &["already", "screening waivers --form rooms"]);
    let listed = desk.json(&["waivers", "--form", "rooms"]).await;
    let of = ["id", "form_id", "rule", "place", "reason", "why"].map(|key| listed[0][key].clone());
    let expected = json!([1, "rooms", "link-userinfo", "field message", "false_positive", "ours"]);
    assert_eq!(json!(of), expected, "{listed:#}");
    let shown = desk.run(&["waivers"]).await;
    assert!(shown.out.contains("link-userinfo") && shown.out.contains("field message"), "{shown:?}");
    refused(
        &desk.run(&waive("link-userinfos")).await,
        1,
        &["did you mean link-userinfo?", "in profile fields"],
    );
    refused(&desk.run(&waive("aws-access-token")).await, 1, &["there is no rule aws-access-token"]);
    // A form that is not screened yet may have one of any profile.
    let early = ["waive", "skills", "aws-access-token", "--reason", "used_in_tests", "--why", "w"];
    let early = desk.json(&early).await;
    assert_eq!((&early["waiver"], &early["place"]), (&json!(3), &Value::Null), "{early:#}");
    let ended = desk.json(&["waive", "--end", "1"]).await;
    assert_eq!(ended, json!({"waiver": 1, "form_id": "rooms", "rule": "link-userinfo", "ended": true}));
    refused(&desk.run(&["waive", "--end", "1"]).await, 1, &["no waiver 1 that stands"]);
    refused(&desk.run(&["waive", "romos", "x", "--reason", "will_fix", "--why", "w"]).await, 1, &["rooms?"]);
    refused(&desk.run(&["waive", "rooms", "x", "--reason", "odd", "--why", "w"]).await, 2, &["will_fix"]);
    refused(&desk.run(&["waive", "rooms", "x"]).await, 2, &["--reason"]);
    refused(&desk.run(&["waive", "rooms", "--end", "1"]).await, 2, &["--end"]);
}

#[tokio::test]
async fn jobs_and_times_of_stages_are_told() {
    let desk = Desk::new().await;
    let empty = desk.run(&["jobs"]).await;
    assert!(empty.code == Some(0) && empty.out.contains("no job waits"), "{empty:?}");
    let none = desk.run(&["sla"]).await;
    assert!(none.code == Some(0) && none.out.contains("no runs"), "{none:?}");
    desk.run(&["enable", "rooms", "--profile", "fields"]).await;
    let (_, run) = desk.submitted().await;
    let run = run.expect("a run");
    let jobs = desk.json(&["jobs", "--type", "tier1-scan"]).await;
    assert_eq!((&jobs[0]["submission_id"], &jobs[0]["status"]), (&json!(run), &json!("pending")), "{jobs:#}");
    assert_eq!(desk.json(&["jobs", "--type", "publish"]).await, json!([]));
    desk.sql(&format!(
        "SET session_replication_role = replica;
         UPDATE screening.submissions SET dead_reason = 'poison', dead_at = now() WHERE id = '{run}'"
    ))
    .await;
    let dead = desk.run(&["jobs", "--dead"]).await;
    assert!(
        dead.out.contains("poison") && dead.out.contains("review list --cause screening_job"),
        "{dead:?}"
    );
    let listed = desk.run(&["list", "--dead"]).await;
    assert!(listed.out.contains("given up on: poison"), "{listed:?}");
    let shown = desk.run(&["show", &run.to_string()]).await;
    assert!(
        shown.out.contains("given up on poison") && shown.out.contains("Is its cause mended?"),
        "{shown:?}"
    );
    assert!(shown.out.contains("review list --cause screening_job"), "{shown:?}");
    desk.sql(&format!(
        "SELECT router.open_entry('screening_job', 'poison', 'screening_job', '{run}', 'rooms', 'k', '{{}}')"
    ))
    .await;
    let shown = desk.run(&["show", &run.to_string()]).await;
    let line = shown.out.lines().find(|line| line.contains("--remedy redrive")).expect("the command");
    let command: Vec<&str> = line.trim().split(' ').skip(1).collect();
    let redriven = crate::harness::run(&desk.stage, &command).await;
    assert_eq!(redriven.code, Some(0), "{line}: {redriven:?}");
    assert_eq!(desk.json(&["jobs", "--dead"]).await, json!([]), "it is tried again");
    refused(&desk.run(&["jobs", "--type", "odd"]).await, 2, &["known are tier1-scan"]);

    let times = async |first: &str, second: &str| {
        desk.sql(&format!(
            "SET session_replication_role = replica; DELETE FROM screening.submission_state_events;
             INSERT INTO screening.submission_state_events (submission_id, from_state, to_state, trigger, actor, actor_type, created_at) VALUES
               ('{run}', NULL, 'RECEIVED', 'api-submission', 's', 'system', now() - interval '60 s'),
               ('{run}', 'RECEIVED', 'TIER1_SCANNING', 'non-vendor-submission', 's', 'worker', now() - interval '50 s'),
               ('{run}', 'TIER1_SCANNING', 'TIER2_SCANNING', 'tier1-pass', 's', 'worker', now() - interval '50 s' + interval '{first}'),
               ('{run}', 'TIER2_SCANNING', 'REJECTED', 'tier2-fail', 's', 'worker', now() - interval '50 s' + interval '{second}')"
        ))
        .await;
    };
    times("100 ms", "10 s").await;
    let good = desk.json(&["sla", "--since", "1h"]).await;
    assert_eq!(good["ok"], true, "{good:#}");
    let stages: Vec<&str> = good["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .filter_map(|stage| stage["stage"].as_str())
        .collect();
    assert_eq!(stages, ["tier 1", "tier 2", "publish", "end to end", "human review"]);
    assert_eq!(
        (&good["stages"][0]["runs"], &good["stages"][0]["p95_is"]),
        (&json!(1), &json!("ok")),
        "{good:#}"
    );
    assert_eq!(good["stages"][1]["target_p95"], 30.0, "{good:#}");
    times("2 s", "10 s").await;
    let bad = desk.run(&["sla"]).await;
    assert!(bad.code == Some(1) && bad.out.contains("P95 missed"), "{bad:?}");
    refused(&desk.run(&["sla", "--since", "odd"]).await, 2, &["90s, 2h or 7d"]);
}

/// A corpus of these items, `(label, message)`.
fn written(dir: &Path, items: impl Iterator<Item = (&'static str, String)>) -> PathBuf {
    let line = |(at, (label, message)): (usize, (&str, String))| {
        format!("{}\n", json!({"id": format!("f{at}"), "label": label, "fields": {"message": message}}))
    };
    let path = dir.join("corpus.jsonl");
    std::fs::write(&path, items.enumerate().map(line).collect::<String>()).expect("a corpus");
    path
}

#[tokio::test]
async fn a_judge_is_tried_and_its_trial_recorded() {
    let desk = Desk::new().await;
    let judge = ScriptedJudge::start().await.expect("a judge");
    let dir = tempfile::tempdir().expect("a directory");
    let key = dir.path().join("judge-key");
    std::fs::write(&key, judge.key().expect("a key")).expect("written");
    let more = format!(
        "[screening.judge]\nbase_url = \"{}\"\nmodel = \"devkit-scripted-1\"\nkey_file = \"{}\"\n",
        judge.base_url(),
        key.display()
    );
    let recorded = "SELECT count(*) FROM screening.calibrations";
    let calibrate = async |more: &str, path: &str| {
        desk.run_with(more, &["calibrate", "--profile", "fields", path, "--json"]).await
    };
    let good = written(
        dir.path(),
        (0..150).map(|at| match at % 2 {
            0 => ("harmless", format!("A question {at}; write to zoe@example.org.")),
            _ => ("spam", format!("The best casino {at}")),
        }),
    );
    let good = good.to_string_lossy().into_owned();

    refused(&calibrate("", &good).await, 78, &["no judge is configured", "[screening.judge]"]);
    let nobody =
        run_with(&desk.stage, &more, &["screening", "calibrate", "--profile", "fields", &good]).await;
    refused(&nobody, 78, &["the publisher's does", "forms.publisher_url"]);
    let small = dir.path().join("small");
    std::fs::create_dir(&small).expect("a directory");
    let small =
        written(&small, (0..200).map(|at| (if at < 50 { "spam" } else { "harmless" }, "x".to_owned())));
    refused(
        &calibrate(&more, &small.to_string_lossy()).await,
        1,
        &["too small: 100 items", "120 are the fewest"],
    );
    refused(&calibrate(&more, "/nowhere").await, 1, &["/nowhere cannot be read"]);
    assert_eq!(judge.requests(), 0, "nobody was asked");

    let answer = calibrate(&more, &good).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let trial: Value = answer.json().expect("JSON");
    let of = ["profile", "model", "items", "harmless", "answered", "false_approvals", "approves", "scripted"];
    let expected = json!(["fields", "devkit-scripted-1", 150, 75, 150, 0, true, true]);
    assert_eq!(json!(of.map(|key| trial[key].clone())), expected, "{trial:#}");
    let kept = format!(
        "SELECT count(*) FROM screening.calibrations WHERE profile = 'fields' AND model = 'devkit-scripted-1' AND prompt = '{}'
           AND items = 150 AND harmless = 75 AND answered = 150 AND false_approvals = 0 AND approves AND actor LIKE 'operator:%'",
        trial["prompt"].as_str().expect("a prompt")
    );
    assert_eq!(desk.count(&kept).await, 1);
    assert_eq!(judge.requests(), 150);
    assert!(!judge.has_seen("zoe@example.org"), "what is personal does not leave");
    assert!(judge.has_seen("The best casino 1"));

    // Near the line it is asked twice, and the lower answer counts: what flips is no approval.
    judge.set(Mode::Flips(84, 78));
    let flips = calibrate(&more, &good).await;
    assert_eq!(judge.requests(), 450, "{flips:?}");
    // One that says yes to everything fails its trial, which is recorded as well, and counts.
    judge.set(Mode::Scored(95));
    let yes = desk.run_with(&more, &["calibrate", "--profile", "fields", &good]).await;
    assert!(yes.code == Some(1) && yes.out.contains("false approvals   75 of 75 (100.0 %"), "{yes:?}");
    assert!(yes.out.contains("it may not approve"), "{yes:?}");
    assert_eq!(desk.count(recorded).await, 3);
    let latest = "SELECT count(*) FROM (SELECT approves FROM screening.calibrations ORDER BY id DESC LIMIT 1) AS t WHERE NOT approves";
    assert_eq!(desk.count(latest).await, 1);
    // What says nothing has no trial; what refuses us neither.
    judge.set(Mode::NoScore);
    refused(&calibrate(&more, &good).await, 1, &["no valid answer"]);
    judge.set(Mode::Status(401));
    refused(&calibrate(&more, &good).await, 78, &["refuses our questions", "nothing is recorded"]);
    judge.set(Mode::RetryAfter(0));
    refused(&calibrate(&more, &good).await, 69, &["cannot be asked now", "nothing is recorded"]);
    // Somebody has no patience with one that never answers.
    judge.set(Mode::Hang);
    let (config, before) =
        (desk.stage.config("special", 0, &format!("{}{more}", desk.extra)), judge.requests());
    let config = desk.stage.write_config("special", &config).expect("a configuration");
    let child = tokio::process::Command::new(binary())
        .env_clear()
        .arg("--config")
        .arg(config)
        .args(["screening", "calibrate", "--profile", "fields", &good])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the verb runs");
    judge.wait_for(before + 8, Duration::from_secs(60)).await.expect("it asks, eight at once");
    let pid = i32::try_from(child.id().expect("it runs")).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("a signal");
    let ended = child.wait_with_output().await.expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("nothing is recorded"), "{ended:?}");
    assert_eq!(judge.requests(), before + 8, "no more than the slots at once");
    assert_eq!(desk.count(recorded).await, 3);
}

#[tokio::test]
async fn rules_are_tried_on_a_corpus_without_a_database() {
    let stage =
        Stage::start(StageOptions { sample_forms: false, ..StageOptions::default() }).await.expect("a stage");
    for (name, profile) in [("fields.jsonl", "fields"), ("git.jsonl", "git")] {
        let answer =
            run(&stage, &["screening", "backtest", "--profile", profile, &corpus(name), "--json"]).await;
        let figures: Value = answer.json().unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        assert!(figures["items"].as_u64() >= Some(120), "{figures:#}");
        let precision = figures["precision"].as_f64().expect("a share");
        assert_eq!(answer.code, Some(i32::from(precision < 0.98)), "{figures:#}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path =
        written(dir.path(), [("harmless", "a word".to_owned()), ("spam", "another".to_owned())].into_iter());
    let path = path.to_string_lossy().into_owned();
    let plain = run(&stage, &["screening", "backtest", "--profile", "fields", &path]).await;
    assert!(plain.code == Some(0) && plain.out.contains("precision   -"), "{plain:?}");
    let rules = dir.path().join("rules.toml");
    std::fs::write(&rules, "[[rules]]\nid = \"ours\"\nseverity = \"block\"\nregex = 'word'\n")
        .expect("rules");
    let rules = rules.to_string_lossy().into_owned();
    let with = ["screening", "backtest", "--profile", "fields", "--form", "rooms", "--rules", &rules, &path];
    let blocked = run(&stage, &with).await;
    assert!(blocked.code == Some(1) && blocked.out.contains("wrongly blocked: f0"), "{blocked:?}");
    assert!(blocked.out.contains("not blocked: f1") && blocked.out.contains("ours"), "{blocked:?}");
    assert!(blocked.err.contains("[screening.forms.rooms]"), "{blocked:?}");
    std::fs::write(&rules, "[[rules]]\nid = \"ours\"\nregex = '('\n").expect("rules");
    refused(&run(&stage, &with).await, 78, &["rules.toml", "ours"]);
    refused(
        &run(&stage, &["screening", "backtest", "--profile", "git", &path]).await,
        1,
        &["line 1", "it has no files"],
    );
}

#[tokio::test]
async fn without_the_schema_every_verb_says_how_it_comes() {
    let stage =
        Stage::start(StageOptions { sample_forms: false, ..StageOptions::default() }).await.expect("a stage");
    let id = Uuid::nil().to_string();
    for arguments in [
        &["list"][..],
        &["forms"],
        &["jobs"],
        &["sla"],
        &["waivers"],
        &["show", &id],
        &["rescreen", &id, "--reason", "r"],
        &["enable", "rooms", "--profile", "fields"],
        &["disable", "rooms", "--reason", "r"],
        &["waive", "--end", "1"],
    ] {
        let answer = run(&stage, &[&["screening"], arguments].concat()).await;
        refused(&answer, 78, &["no schema screening", "migrate --screening"]);
    }
}
