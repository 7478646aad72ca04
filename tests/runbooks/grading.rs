//! What commands about grading need: its schemas, a form that is graded, an attempt at the submission in a state in which an operator would type
//! them, models (devkit's count of words, which is none), work that people have graded, and a question.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use devkit::grader::{MODELS, ScriptedGrader};
use devkit::stage::Stage;
use serde_json::json;
use uuid::Uuid;

use crate::scene::FORM;

/// The question.
pub(crate) const QUESTION: &str = "essay-1";
/// Its file.
pub(crate) const FILE: &str = "essay-1.json";
/// The work that people have graded, where a command names it so.
const CORPUS: &str = "graded.jsonl";

/// Whether a command is about grading: whoever migrates finds nothing yet.
pub(crate) fn concerns(command: &str) -> bool {
    [" grading ", "--cause grading", "assessment."].iter().any(|word| command.contains(word))
}

/// What there is beside a command.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Sections of the configuration.
    pub(crate) extra: String,
    /// The work that people have graded.
    pub(crate) corpus: String,
    /// Answers while the scene lasts.
    _grader: Option<ScriptedGrader>,
}

/// The parts of grading, and what was there before a command.
pub(crate) async fn beside(stage: &Stage, command: &str, submission: Uuid) -> Beside {
    let grader = ScriptedGrader::start().await.expect("a grader");
    let key = stage.dir().join("grader-key");
    fs::write(&key, grader.key().expect("it wants one")).expect("a key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours alone");
    let extra = format!(
        "[grading]\nmode = \"on\"\ngrader_url = \"{}\"\n[grading.judge]\nbase_url = \"{}\"\nmodels = {MODELS:?}\nkey_file = \"{}\"\n\
         send = \"full\"\nallow_scripted = true\n[forms]\npublisher_url = \"{}\"\n",
        stage.database.url_as("maple_grader"),
        grader.base_url(),
        key.display(),
        stage.database.url_as("forms_loader"),
    );
    let question = json!({"skill": "writing", "prompt": "Some people learn best alone. Discuss."});
    fs::write(stage.dir().join(FILE), question.to_string()).expect("a question");
    let corpus = stage.dir().join(CORPUS);
    fs::write(&corpus, works()).expect("a corpus");
    let eyes = stage.database.superuser().await.expect("superuser");
    if !command.contains(" question ") {
        let sql = format!(
            "INSERT INTO assessment.questions (id, skill, prompt, set_by) VALUES ('{QUESTION}', 'writing', 'Discuss.', 'earlier')"
        );
        eyes.batch_execute(&sql).await.expect("a question");
    }
    if !command.contains(" enable ") && !command.contains(" question ") {
        let form = format!(
            "INSERT INTO assessment.profiles (form_id, skill, question, text_field, task, sla, set_by)
             VALUES ('{FORM}', 'writing', '{QUESTION}', 'essay', 'essay', '20 minutes', 'earlier')"
        );
        eyes.batch_execute(&form).await.expect("a graded form");
        eyes.batch_execute(&attempt(command, submission)).await.expect("its attempt");
    }
    if command.contains(" --dead") {
        let dead = "INSERT INTO mq.grading_dlq (queue, message_id, payload, reason, detail)
            VALUES ('callback', gen_random_uuid(), '{}', 'unreadable', 'requestId is missing')";
        eyes.batch_execute(dead).await.expect("a dead message");
    }
    Beside { extra, corpus: corpus.display().to_string(), _grader: Some(grader) }
}

/// Work on which the stand-in agrees with people: what is wanted here is what a command says of a good corpus.
fn works() -> String {
    (0..30).fold(String::new(), |mut all, at| {
        let score = f64::from(2 + at % 17) / 2.0;
        let text = format!("Text number {at} of somebody who learns. [[score {score}]]");
        let line = json!({"prompt": "Discuss.", "text": text, "score": score, "task": "essay"});
        writeln!(all, "{line}").expect("a line");
        all
    })
}

/// The attempt at the submission: in the state that the command asks for, failed where somebody has to do something about it.
fn attempt(command: &str, submission: Uuid) -> String {
    let asked = command.split_once("--state ").and_then(|(_, rest)| rest.split_whitespace().next());
    let wants_end = [" regrade ", " release ", " show ", " --late"].iter().any(|word| command.contains(word));
    let state = asked.unwrap_or(if wants_end { "FAILED" } else { "COMPLETED" });
    let (ended, reason, priority) = match state {
        "FAILED" => ("now()", "'timeout'", "NULL"),
        "COMPLETED" => ("now()", "NULL", "NULL"),
        "REVIEW_PENDING" => ("NULL", "NULL", "'High'"),
        _ => ("NULL", "NULL", "NULL"),
    };
    let late = if command.contains(" --late") {
        format!(
            "INSERT INTO assessment.results (request_id, kind, try, is_late, result, digest, score, band, actor) SELECT a.id, 'ai', 1, true, '{{}}', '{}', 6, 'B2', 'system' FROM a",
            "0".repeat(64)
        )
    } else {
        "SELECT FROM a".to_owned()
    };
    format!(
        "WITH a AS (
           INSERT INTO assessment.submissions (subject, attempt, form_id, skill, gate, on_failed, state, deadline, ended_at, failed_reason, priority)
           VALUES ('{submission}', 1, '{FORM}', 'writing', true, 'hold', '{state}', now() + interval '20 minutes', {ended}, {reason}, {priority})
           RETURNING id
         ), e AS (
           INSERT INTO assessment.events (submission_id, from_state, to_state, trigger, actor, actor_type, created_at)
           SELECT a.id, w.was, w.becomes, w.trigger, 'system', 'system', now() - w.ago FROM a, (VALUES
             (NULL, 'PENDING', 'submit', interval '30 s'), ('PENDING', 'QUEUED', 'request-published', interval '20 s'),
             ('QUEUED', 'PROCESSING', 'picked-up', interval '10 s'), ('PROCESSING', 'COMPLETED', 'completed', interval '1 s')
           ) AS w (was, becomes, trigger, ago) WHERE '{state}' = 'COMPLETED' OR w.trigger = 'submit'
         )
         {late}"
    )
}
