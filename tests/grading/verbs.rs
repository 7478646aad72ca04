//! `grading`, as people type it; and what is wrong said with a remedy. Nothing that was written is ever shown, nor what was said of it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use devkit::forms::Form;
use devkit::grader::{Grading, Kind};
use devkit::judge::Mishap;
use devkit::postgres::Variant;
use devkit::stage::{Answer, Stage, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Models, essay};

/// What somebody entered, and nobody is shown.
const ENTERED: &str = "planted-words-of-a-person";

struct Desk {
    stage: Stage,
    extra: String,
    eyes: tokio_postgres::Client,
}

impl Desk {
    /// Forms `essay` and `track`; the publisher is named.
    async fn new() -> Self {
        let variant = Variant { router: true, grading: true, ..Variant::default() };
        let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::start(options).await.expect("a stage");
        let forms = ["essay", "track"].map(|form| Form::new(form).mail_to("a@example.org"));
        devkit::forms::load_into(&stage.database, &forms).await.expect("forms");
        let extra = format!("[forms]\npublisher_url = \"{}\"\n", stage.database.url_as("forms_loader"));
        let eyes = stage.database.superuser().await.expect("superuser");
        Self { stage, extra, eyes }
    }

    async fn run(&self, arguments: &[&str]) -> Answer {
        self.run_under(&self.extra, arguments).await
    }

    async fn run_under(&self, extra: &str, arguments: &[&str]) -> Answer {
        self.verb(extra, "grading", arguments).await
    }

    async fn verb(&self, extra: &str, verb: &str, arguments: &[&str]) -> Answer {
        let config = self.stage.config("special", 0, extra);
        let config = self.stage.write_config("special", &config).expect("a configuration");
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_maple-router"))
            .env_clear()
            .env("GCE_METADATA_HOST", self.stage.google.metadata_host())
            .arg("--config")
            .arg(config)
            .arg(verb)
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        output.await.expect("the verb runs").into()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.run(&[arguments, &["--json"]].concat()).await;
        answer.json().unwrap_or_else(|error| panic!("{arguments:?}: {error}: {answer:?}"))
    }

    async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    async fn count(&self, what: &str) -> i64 {
        self.eyes.query_one(&format!("SELECT count(*) FROM {what}"), &[]).await.expect(what).get(0)
    }

    /// Form `essay` is graded.
    async fn graded(&self) {
        self.sql(
            "INSERT INTO assessment.questions (id, skill, prompt, set_by) VALUES ('parks', 'writing', 'Parks?', 'test');
             INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, sla, since, set_by)
             VALUES ('essay', 'writing', 'parks', 'answer', 'essay', '20 minutes', now() - interval '1 day', 'test')",
        )
        .await;
    }

    /// A submission and its attempt, which is in this state.
    async fn submitted(&self, state: &str) -> (Uuid, Uuid) {
        let id = Uuid::new_v4();
        self.sql(&format!(
            "BEGIN; INSERT INTO submissions (id, form_id) VALUES ('{id}', 'essay');
             INSERT INTO submission_fields (submission_id, field_key, field_value, position) VALUES ('{id}', 'answer', '{ENTERED}', 1); COMMIT;
             SET session_replication_role = replica;
             UPDATE assessment.submissions SET state = '{state}', priority = CASE WHEN '{state}' = 'REVIEW_PENDING' THEN 'High' END,
               failed_reason = CASE WHEN '{state}' = 'FAILED' THEN 'timeout' END,
               ended_at = CASE WHEN '{state}' IN ('COMPLETED', 'FAILED') THEN now() END WHERE subject = '{id}';
             SET session_replication_role = origin"
        ))
        .await;
        let attempt = "SELECT id FROM assessment.submissions WHERE subject = $1 AND current";
        let attempt: Option<Uuid> =
            self.eyes.query_opt(attempt, &[&id]).await.expect("asked").map(|row| row.get(0));
        (id, attempt.unwrap_or_default())
    }
}

fn refused(answer: &Answer, code: i32, words: &[&str]) {
    assert_eq!(answer.code, Some(code), "{answer:?}");
    for word in words {
        assert!(answer.err.contains(word), "{word}: {answer:?}");
    }
    assert!(!format!("{answer:?}").contains(ENTERED), "{answer:?}");
}

fn done(answer: &Answer, words: &[&str]) {
    assert_eq!(answer.code, Some(0), "{answer:?}");
    for word in words {
        assert!(answer.out.contains(word), "{word}: {answer:?}");
    }
    assert!(!format!("{answer:?}").contains(ENTERED), "{answer:?}");
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = dir.join(name);
    std::fs::write(&path, text).expect("written");
    path.to_string_lossy().into_owned()
}

#[tokio::test]
async fn a_question_is_set_and_a_broken_one_is_told_by_its_fault() {
    let desk = Desk::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let set = async |text: Value| {
        let path = file(dir.path(), "question.json", &text.to_string());
        desk.run(&["question", "q-1", "--file", &path]).await
    };
    done(
        &set(json!({"skill": "writing", "prompt": "Parks?"})).await,
        &["question q-1 is a question of writing", "6 characters"],
    );
    done(
        &set(json!({"skill": "listening", "answer_key": {"1": "nine", "2": ["a", "b"]}, "rubric": "2"}))
            .await,
        &["a key of 2 items", "rubric 2"],
    );
    assert_eq!(
        desk.count("assessment.questions WHERE id = 'q-1' AND skill = 'listening' AND rubric = '2'").await,
        1
    );
    for (text, words) in [
        (json!({"skill": "listening"}), "listening needs an answer_key"),
        (json!({"skill": "listening", "answer_key": {"1": []}}), "no answer, or a blank one"),
        (json!({"skill": "listening", "answer_key": ["nine"]}), "not an object of items"),
        (json!({"skill": "writing", "prompt": "x", "answer_key": {"1": "a"}}), "writing has no answer_key"),
        (json!({"skill": "writing", "prompt": " "}), "writing needs a prompt"),
        (json!({"skill": "odd", "prompt": "x"}), "odd"),
        (json!({"skill": "writing", "prompt": "x", "more": 1}), "more"),
    ] {
        refused(&set(text).await, 2, &[words]);
    }
    refused(&desk.run(&["question", "q-1", "--file", "/nowhere"]).await, 2, &["/nowhere"]);
    refused(&desk.run(&["question", "q 1", "--file", "/nowhere"]).await, 2, &["1 to 80 letters"]);
}

#[tokio::test]
async fn a_form_is_graded_then_otherwise_then_no_more_and_each_misuse_has_its_answer() {
    let desk = Desk::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    done(&desk.run(&["forms"]).await, &["no form is graded"]);
    for (name, text) in [
        ("parks", json!({"skill": "writing", "prompt": "Parks?"})),
        ("page", json!({"skill": "reading", "answer_key": {"1": "true"}})),
    ] {
        let path = file(dir.path(), name, &text.to_string());
        done(&desk.run(&["question", name, "--file", &path]).await, &[name]);
    }
    let writing = [
        "enable",
        "essay",
        "--skill",
        "writing",
        "--question",
        "parks",
        "--text-field",
        "answer",
        "--task",
        "essay",
    ];
    let enabled = desk.run(&writing).await;
    done(
        &enabled,
        &[
            "form essay is graded from now on (writing, question parks, within 20m): its mail waits for the grade",
        ],
    );
    for word in ["grading_set", "grading.mode is off", "nobody grades ([grading.judge])"] {
        assert!(enabled.err.contains(word), "{word}: {enabled:?}");
    }
    let reading = desk
        .json(&[
            "enable",
            "track",
            "--skill",
            "reading",
            "--question",
            "page",
            "--on-failed",
            "send",
            "--sla",
            "2m",
        ])
        .await;
    assert_eq!(
        reading,
        json!({"form_id": "track", "skill": "reading", "question": "page", "gate": true, "on_failed": "send", "sla_seconds": 120})
    );
    done(&desk.run(&[&writing[..], &["--no-gate"]].concat()).await, &["its mail goes at once"]);
    done(&desk.run(&["forms"]).await, &["essay", "goes at once", "1200 s", "waits; without a grade it goes"]);
    let forms = desk.json(&["forms"]).await;
    assert_eq!(
        (&forms[0]["form_id"], &forms[0]["gate"], &forms[0]["open"]),
        (&json!("essay"), &json!(false), &json!(0))
    );
    let without = |switch: &str| -> Vec<&str> {
        let at = writing.iter().position(|word| *word == switch).expect("there");
        [&writing[..at], &writing[at + 2..]].concat()
    };
    for (arguments, code, words) in [
        (without("--text-field"), 2, "writing needs --text-field"),
        (without("--task"), 2, "writing needs --task"),
        ([&writing[..], &["--part", "1"]].concat(), 2, "writing has no place for --part"),
        (vec!["enable", "essay", "--skill", "speaking", "--question", "parks"], 2, "speaking needs --part"),
        (
            vec!["enable", "essay", "--skill", "reading", "--question", "page", "--task", "essay"],
            2,
            "reading has no place for --task",
        ),
        (
            vec!["enable", "essay", "--skill", "odd", "--question", "page"],
            2,
            "known are writing, speaking, listening, reading",
        ),
        (
            vec!["enable", "essay", "--skill", "reading", "--question", "page", "--on-failed", "odd"],
            2,
            "known are hold, send",
        ),
        (vec!["enable", "essay", "--skill", "reading", "--question", "page", "--sla", "odd"], 2, "--sla"),
        (vec!["enable", "essay", "--skill", "reading", "--question", "odd"], 1, "there is no question odd"),
        (
            vec!["enable", "essay", "--skill", "reading", "--question", "parks"],
            1,
            "question parks is one of writing, not of reading",
        ),
        (vec!["enable", "esay", "--skill", "reading", "--question", "page"], 1, "did you mean essay?"),
        (vec!["disable", "essay"], 2, "--reason"),
    ] {
        refused(&desk.run(&arguments).await, code, &[words]);
    }
    refused(&desk.run_under("", &writing).await, 78, &["the publisher's does", "forms.publisher_url"]);
    done(&desk.run(&["disable", "essay", "--reason", "closed"]).await, &["form essay is graded no more"]);
    refused(
        &desk.run(&["disable", "essay", "--reason", "closed"]).await,
        1,
        &["form essay is not graded", "grading forms"],
    );
}

#[tokio::test]
async fn attempts_are_listed_told_graded_again_and_let_go_without_a_word_of_what_was_written() {
    let desk = Desk::new().await;
    let (ungraded, _) = desk.submitted("PENDING").await;
    desk.graded().await;
    done(&desk.run(&["list"]).await, &["there is no such attempt"]);
    let (failed, first) = desk.submitted("FAILED").await;
    let (open, going_on) = desk.submitted("PROCESSING").await;
    let (review, _) = desk.submitted("REVIEW_PENDING").await;
    done(
        &desk.run(&["list"]).await,
        &[&failed.to_string(), &open.to_string(), &review.to_string(), "a person is wanted: High"],
    );
    let listed = desk.json(&["list", "--state", "failed", "--form", "essay"]).await;
    assert_eq!(
        (listed.as_array().map(Vec::len), &listed[0]["subject"]),
        (Some(1), &json!(failed)),
        "{listed:#}"
    );
    let few = desk.run(&["list", "--limit", "1"]).await;
    assert!(few.err.contains("only the first 1 are shown"), "{few:?}");
    refused(&desk.run(&["list", "--state", "odd"]).await, 2, &["known are PENDING, QUEUED"]);
    refused(&desk.run(&["list", "--form", "esay"]).await, 1, &["did you mean essay?"]);
    done(&desk.run(&["list", "--late"]).await, &["there is no such attempt"]);

    let told = desk.run(&["show", &failed.to_string()]).await;
    done(
        &told,
        &[
            "attempt 1",
            "FAILED",
            "submit by system",
            &format!("grading regrade {failed} --reason TEXT"),
            "grading release",
        ],
    );
    done(&desk.run(&["show", &first.to_string()]).await, &[&format!("submission {failed}")]);
    done(&desk.run(&["show", &failed.to_string()[..8]]).await, &[&format!("submission {failed}")]);
    done(&desk.run(&["show", &review.to_string()]).await, &["review list --cause grading"]);
    done(&desk.run(&["show", &going_on.to_string()]).await, &["it goes on by itself until its deadline"]);
    refused(&desk.run(&["show", &ungraded.to_string()]).await, 1, &["was never graded", "grading forms"]);
    refused(&desk.run(&["show", &Uuid::new_v4().to_string()]).await, 1, &["was never graded"]);

    // Whoever asks about the submission hears what its mail waits for.
    let on = "[grading]\nmode = \"on\"\n";
    done(
        &desk.verb(on, "explain", &[&failed.to_string()]).await,
        &["its mail waits for a grade, and attempt 1"],
    );

    let again = |id: Uuid| {
        ["regrade".to_owned(), id.to_string(), "--reason".to_owned(), "a grade is owed".to_owned()]
    };
    let words = |all: [String; 4]| all;
    let ask = async |id: Uuid, verb: &str| {
        let mut all = words(again(id));
        verb.clone_into(&mut all[0]);
        desk.run(&all.each_ref().map(String::as_str)).await
    };
    let answer = ask(failed, "regrade").await;
    done(&answer, &[&format!("submission {failed} is graded again, by attempt ")]);
    assert!(answer.err.contains("regraded"), "{answer:?}");
    assert_eq!(
        desk.count("assessment.submissions WHERE attempt = 2 AND opened_by LIKE 'operator:%'").await,
        1
    );
    done(&desk.run(&["list"]).await, &["another attempt followed"]);
    refused(
        &ask(failed, "regrade").await,
        1,
        &["is being graded: its attempt has not ended", "grading show"],
    );
    refused(&ask(ungraded, "regrade").await, 1, &["was never graded"]);
    refused(&desk.run(&["regrade", &failed.to_string()]).await, 2, &["--reason"]);
    done(&ask(open, "release").await, &["goes without a grade", &format!("explain {open}")]);
    refused(&ask(open, "release").await, 1, &["was let go before"]);
    refused(&ask(ungraded, "release").await, 1, &["no attempt at submission"]);
    desk.sql(&format!("UPDATE submissions SET status = 'purged' WHERE id = '{failed}'")).await;
    refused(&ask(failed, "regrade").await, 1, &["is emptied", "receipts show"]);
}

#[tokio::test]
async fn messages_are_counted_and_the_dead_are_named_without_what_is_in_them() {
    let desk = Desk::new().await;
    done(&desk.run(&["messages"]).await, &["request", "callback", "dead"]);
    done(&desk.run(&["messages", "--dead"]).await, &["no message is dead"]);
    let request = Uuid::new_v4();
    desk.sql(&format!(
        "INSERT INTO mq.grading_request (message_id, payload) VALUES (gen_random_uuid(), '{{\"x\": \"{ENTERED}\"}}');
         INSERT INTO mq.grading_dlq (queue, message_id, payload, reason, detail)
         VALUES ('callback', gen_random_uuid(), '{{\"requestId\": \"{request}\", \"x\": \"{ENTERED}\"}}', 'impossible', 'band is not that of overallScore')"
    ))
    .await;
    let depths = desk.json(&["messages"]).await;
    assert_eq!(
        (&depths[0]["queue"], &depths[0]["waiting"], &depths[2]["waiting"]),
        (&json!("request"), &json!(1), &json!(1))
    );
    done(
        &desk.run(&["messages", "--dead"]).await,
        &["callback", "impossible", &request.to_string(), "band is not that"],
    );
    let dead = desk.json(&["messages", "--dead"]).await;
    assert!(!dead.to_string().contains(ENTERED) && dead[0]["request"] == json!(request), "{dead}");
}

#[tokio::test]
async fn stages_are_told_from_the_events_and_who_was_too_late_is_found_wanting() {
    let desk = Desk::new().await;
    desk.graded().await;
    done(&desk.run(&["sla"]).await, &["no attempt left a stage"]);
    let (_, attempt) = desk.submitted("COMPLETED").await;
    desk.sql(&format!(
        "SET session_replication_role = replica;
         UPDATE assessment.submissions SET created_at = now() - interval '30 s' WHERE id = '{attempt}';
         INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type, created_at) VALUES
           ('{attempt}', 'PENDING', 'QUEUED', 'request-published', 'system', 'system', now() - interval '25 s'),
           ('{attempt}', 'QUEUED', 'PROCESSING', 'picked-up', 'worker', 'worker', now() - interval '20 s'),
           ('{attempt}', 'PROCESSING', 'COMPLETED', 'completed', 'system', 'system', now() - interval '10 s');
         SET session_replication_role = origin"
    ))
    .await;
    done(
        &desk.run(&["sla"]).await,
        &["writing", "queued", "5.00 s", "processing", "10.00 s", "end_to_end", "20.00 s", "1 of 1"],
    );
    let times = desk.json(&["sla", "--since", "1h"]).await;
    assert_eq!(times.as_array().map(Vec::len), Some(3), "{times:#}");
    done(&desk.run(&["sla", "--since", "1s"]).await, &["no attempt left a stage"]);
    desk.sql(&format!(
        "SET session_replication_role = replica; UPDATE assessment.submissions SET deadline = now() - interval '15 s' WHERE id = '{attempt}';
         SET session_replication_role = origin"
    ))
    .await;
    let late = desk.run(&["sla"]).await;
    assert!(late.code == Some(1) && late.out.contains("0 of 1"), "{late:?}");
    refused(&desk.run(&["sla", "--since", "odd"]).await, 2, &["--since"]);
}

#[tokio::test]
async fn models_are_tried_and_their_trial_recorded() {
    let desk = Desk::new().await;
    let models = Models::new().await;
    let dir = tempfile::tempdir().expect("a directory");
    let grader_url = format!("grader_url = \"{}\"", desk.stage.database.url_as("maple_grader"));
    let more = models.toml(&grader_url);
    let corpus = |name: &str, items: u32, off: f64| {
        let line = |at: u32| {
            let score = 1.0 + f64::from(at % 9);
            let text = essay(&format!("[[score {score}]] {at}"));
            format!("{}\n", json!({"prompt": "Parks?", "text": text, "score": score + off, "task": "essay"}))
        };
        file(dir.path(), name, &(0..items).map(line).collect::<String>())
    };
    let calibrate = async |extra: &str, corpus: &str| {
        desk.run_under(extra, &["calibrate", "--skill", "writing", "--corpus", corpus, "--json"]).await
    };
    let good = corpus("good.jsonl", 30, 0.5);
    refused(&calibrate("", &good).await, 78, &["nobody grades", "[grading.judge]"]);
    refused(&calibrate(&models.toml(""), &good).await, 78, &["may not record trials", "grading.grader_url"]);
    refused(
        &calibrate(&more, &corpus("small.jsonl", 29, 0.0)).await,
        1,
        &["too small: it has 29 works, and 30 are the fewest"],
    );
    refused(&calibrate(&more, "/nowhere").await, 2, &["/nowhere"]);
    let odd = |line: Value| file(dir.path(), "odd.jsonl", &line.to_string());
    let item = json!({"prompt": "Parks?", "text": "x", "score": 7.3, "task": "essay"});
    refused(&calibrate(&more, &odd(item)).await, 2, &["line 1: the score is no multiple of 0.5"]);
    refused(
        &calibrate(&more, &odd(json!({"prompt": "Parks?", "text": "x", "score": 7}))).await,
        2,
        &["line 1: a task is of writing"],
    );
    refused(&calibrate(&more, &odd(json!({"text": "x"}))).await, 2, &["line 1: missing field"]);
    let keyed = desk.run_under(&more, &["calibrate", "--skill", "reading", "--corpus", &good]).await;
    refused(&keyed, 2, &["reading is compared with a key"]);
    assert_eq!(models.scripted.calls(Kind::Grading), 0, "nobody was asked");

    let tried = calibrate(&more, &good).await;
    assert_eq!(tried.code, Some(0), "{tried:?}");
    let trial: Value = tried.json().expect("JSON");
    let of =
        ["skill", "rubric", "items", "answered", "mae", "suffices", "scripted"].map(|key| trial[key].clone());
    assert_eq!(json!(of), json!(["writing", "1", 30, 30, 0.5, true, true]), "{trial:#}");
    assert!(trial["qwk"].as_f64().is_some_and(|kappa| kappa > 0.7) && trial["ece"].is_number(), "{trial:#}");
    assert_eq!(models.scripted.calls(Kind::Grading), 90, "three samples of each");
    assert_eq!(
        desk.count("grading.calibrations WHERE suffices AND items = 30 AND actor LIKE 'operator:%'").await,
        1
    );
    // One that is far from people fails its trial, which is recorded as well, and counts.
    let far = corpus("far.jsonl", 30, 1.0);
    let failed = desk.run_under(&more, &["calibrate", "--skill", "writing", "--corpus", &far]).await;
    assert!(failed.code == Some(1) && failed.out.contains("they may not grade alone"), "{failed:?}");
    for word in ["kappa of bands", "mean difference of scores   1.00", "calibration error"] {
        assert!(failed.out.contains(word), "{word}: {failed:?}");
    }
    assert_eq!(desk.count("grading.calibrations WHERE NOT suffices").await, 1);
    let passed = desk.run_under(&more, &["calibrate", "--skill", "writing", "--corpus", &good]).await;
    done(&passed, &["a scripted stand-in answered"]);
    // What refuses us has no trial.
    models.scripted.grade(Grading::Mishap(Mishap::Status(401)));
    refused(&calibrate(&more, &good).await, 78, &["nothing is recorded"]);
    assert_eq!(desk.count("grading.calibrations").await, 3);
}

#[tokio::test]
async fn without_the_schema_each_verb_says_what_to_do() {
    let variant = Variant { router: true, ..Variant::default() };
    let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
    let stage = Stage::start(options).await.expect("a stage");
    let eyes = stage.database.superuser().await.expect("superuser");
    let desk = Desk { stage, extra: String::new(), eyes };
    let id = Uuid::new_v4().to_string();
    for arguments in [
        vec!["forms"],
        vec!["list"],
        vec!["show", &id],
        vec!["regrade", &id, "--reason", "x"],
        vec!["release", &id, "--reason", "x"],
        vec!["messages"],
        vec!["sla"],
        vec!["disable", "essay", "--reason", "x"],
    ] {
        refused(&desk.run(&arguments).await, 78, &["no schema assessment", "migrate --grading"]);
    }
}
