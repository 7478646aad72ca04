//! What commands about screening need: schema screening, a form that is screened, a run of the submission in a state in which an operator
//! would type them, a judge (devkit's list of words, which is no model), labelled examples and further rules.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use devkit::judge::{MODEL, Mode, ScriptedJudge};
use devkit::stage::Stage;
use uuid::Uuid;

use crate::scene::FORM;

/// The rule that is waived.
pub(crate) const RULE: &str = "phishing-lure";
/// The place in which it is, as a shell takes it.
pub(crate) const PLACE: &str = "'field message'";
/// The file of further rules.
pub(crate) const FILE: &str = "rules.toml";

/// Whether a command is about screening.
pub(crate) fn concerns(command: &str) -> bool {
    command.contains(" screening ") || command.contains("--cause screening")
}

/// What there is beside a command.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Sections of the configuration.
    pub(crate) extra: String,
    /// A waiver's number.
    pub(crate) waiver: i64,
    /// The labelled examples of the command's profile.
    pub(crate) corpus: String,
    /// Answers while the scene lasts.
    _judge: Option<ScriptedJudge>,
}

/// The parts of screening, and what was there before a command.
pub(crate) async fn beside(stage: &Stage, command: &str, submission: Uuid) -> Beside {
    let judge = ScriptedJudge::start().await.expect("a judge");
    judge.set(Mode::ByContent);
    let key = stage.dir().join("judge-key");
    fs::write(&key, judge.key().expect("it wants one")).expect("a key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours alone");
    fs::write(stage.dir().join(FILE), format!("[severity]\n{RULE} = \"review\"\n")).expect("rules");
    let extra = format!(
        "[screening]\nmode = \"on\"\nscreener_url = \"{}\"\n[screening.judge]\nbase_url = \"{}\"\nmodel = \"{MODEL}\"\n\
         key_file = \"{}\"\nallow_scripted = true\n[forms]\npublisher_url = \"{}\"\n",
        stage.database.url_as("maple_screener"),
        judge.base_url(),
        key.display(),
        stage.database.url_as("forms_loader"),
    );
    let eyes = stage.database.superuser().await.expect("superuser");
    if !command.contains(" enable ") {
        let form = format!(
            "INSERT INTO screening.forms (form_id, profile, since, enforced_since, set_by)
             VALUES ('{FORM}', 'fields', now() - interval '1 day', now() - interval '1 day', 'earlier')"
        );
        eyes.batch_execute(&form).await.expect("a screened form");
        eyes.batch_execute(&run(command, submission)).await.expect("its run");
    }
    let mut waiver = 0;
    if command.contains(" waivers") || command.contains(" --end ") {
        let sql = format!(
            "INSERT INTO screening.waivers (form_id, rule, reason, why, actor)
             VALUES ('{FORM}', '{RULE}', 'false_positive', 'earlier', 'operator:test') RETURNING id"
        );
        waiver = eyes.query_one(&sql, &[]).await.expect("a waiver").get(0);
    }
    let corpus = stage.dir().join("corpus.jsonl");
    fs::write(&corpus, items()).expect("a corpus");
    let corpus = corpus.display().to_string();
    Beside { extra, waiver, corpus, _judge: Some(judge) }
}

/// A corpus that rules and the list of words have no trouble with: what is wanted here is what a command says of a good one.
fn items() -> String {
    let item = |at: u32| {
        let (label, block, text) = if at.is_multiple_of(2) {
            ("harmless", false, format!("Question {at}: when is the next meeting of the local group?"))
        } else {
            (
                "spam",
                true,
                format!("The best online casino {at}! Click here: https://casino{at}.example/bonus"),
            )
        };
        let (id, fields) = (format!("f{at:03}"), serde_json::json!({"form": "contact", "message": text}));
        let item = serde_json::json!({"id": id, "label": label, "block": block, "why": "a test", "hard": false, "fields": fields});
        format!("{item}\n")
    };
    (0..150).map(item).collect()
}

/// The submission's run: in the state that the command asks for, given up on where it asks for that, ended where another one is wanted.
fn run(command: &str, submission: Uuid) -> String {
    let asked = command.split_once("--state ").and_then(|(_, rest)| rest.split_whitespace().next());
    let wants_end = command.contains(" rescreen ") || command.contains(" show ");
    let state = asked.unwrap_or(if wants_end { "REJECTED" } else { "RECEIVED" });
    let ended = ["TIER1_FAILED", "REJECTED", "PUBLISHED"].contains(&state);
    let (ended_at, dead_at, dead_reason) = match (ended, command.contains(" --dead")) {
        (true, _) => ("now()", "NULL", "NULL"),
        (false, true) => ("NULL", "now()", "'poison'"),
        (false, false) => ("NULL", "NULL", "NULL"),
    };
    format!(
        "WITH r AS (
           INSERT INTO screening.submissions (subject, run, enforced, form_id, profile, state, digest, ended_at, dead_at, dead_reason)
           VALUES ('{submission}', 1, true, '{FORM}', 'fields', '{state}', screening.digest_of('{submission}'), {ended_at}, {dead_at}, {dead_reason})
           RETURNING id)
         INSERT INTO screening.submission_state_events (submission_id, to_state, trigger, actor, actor_type)
         SELECT r.id, 'RECEIVED', 'api-submission', 'system', 'system' FROM r"
    )
}
