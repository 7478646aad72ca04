//! Values for the placeholders of a command: submissions, attachments and dead letters in the state in which an
//! operator would type it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use devkit::forms::{Form, SubmissionSeed};
use devkit::help_desk::{HelpDesk, HelpDeskOptions};
use devkit::stage::{Stage, StageOptions};
use devkit::uploading::Uploading;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::here::binary;
use crate::{forms, grading, retention, screening, uploads};

pub(crate) const FORM: &str = "contact";
pub(crate) const RECIPIENT: &str = "a@example.org";
const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// A stage, its one submission, and what belongs to it.
pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) submission: Uuid,
    pub(crate) attachment: Uuid,
    pub(crate) record: Uuid,
    /// The submission's entry of the review queue.
    pub(crate) entry: Uuid,
    /// An upload of somebody's.
    pub(crate) upload: Uuid,
    /// The digest of the newest version of the form.
    pub(crate) digest: String,
    /// What commands about retention find.
    retained: retention::Beside,
    /// What commands about screening find.
    screened: screening::Beside,
    /// What commands about grading find.
    graded: grading::Beside,
    /// Sections of the configuration, of what only some commands need.
    pub(crate) extra: String,
    /// Answers while the scene lasts.
    _help_desk: Option<HelpDesk>,
    /// Answers while the scene lasts.
    _uploading: Option<Uploading>,
}

impl Scene {
    /// The state in which `command` makes sense.
    pub(crate) async fn before(command: &str) -> Self {
        let mut options = StageOptions { sample_forms: false, ..StageOptions::default() };
        let about_content: [fn(&str) -> bool; 3] =
            [uploads::needs_schema, forms::concerns, retention::concerns];
        options.variant.content = about_content.iter().any(|needs| needs(command));
        options.variant.screening = screening::concerns(command);
        options.variant.grading = grading::concerns(command);
        options.variant.router = command.contains(" review ")
            || options.variant.content
            || options.variant.screening
            || options.variant.grading;
        let stage = Stage::start(options).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::new(FORM).mail_to(RECIPIENT)])
            .await
            .expect("a form");
        let backend = stage.database.client_as("forms_app").await.expect("forms_app");
        let seeded = submission(command).insert(&backend).await.expect("a submission");
        let record = if command.contains("RECORD_ID") { record(&stage).await } else { Uuid::nil() };
        let entry = if command.contains(" review ") { entry(&stage, command).await } else { Uuid::nil() };
        let (mut extra, mut help_desk) = (String::new(), None);
        if command.contains(" happyfox ") {
            let desk = HelpDesk::start(HelpDeskOptions::default()).await.expect("a help desk");
            extra = happyfox(&stage, &desk);
            help_desk = Some(desk);
        }
        let (mut uploading, mut upload) = (None, Uuid::nil());
        if uploads::concerns(command) {
            let (beside, id) = uploads::beside(&stage, command).await;
            extra.clone_from(&beside.settings);
            (uploading, upload) = (Some(beside), id);
        }
        let mut digest = String::new();
        if forms::concerns(command) {
            (extra, digest) = forms::beside(&stage, command).await;
        }
        let mut retained = retention::Beside::default();
        if retention::concerns(command) {
            retained = retention::beside(&stage, command, seeded.id).await;
            extra.clone_from(&retained.extra);
        }
        let mut screened = screening::Beside::default();
        if screening::concerns(command) {
            screened = screening::beside(&stage, command, seeded.id).await;
            extra.clone_from(&screened.extra);
        }
        let mut graded = grading::Beside::default();
        if grading::concerns(command) {
            graded = grading::beside(&stage, command, seeded.id).await;
            extra.clone_from(&graded.extra);
        }
        let attachment = seeded.attachments[0];
        Self {
            stage,
            submission: seeded.id,
            attachment,
            record,
            entry,
            upload,
            digest,
            retained,
            screened,
            graded,
            extra,
            _help_desk: help_desk,
            _uploading: uploading,
        }
    }

    /// `command` with its placeholders filled.
    pub(crate) fn filled(&self, command: &str) -> String {
        let (id, record, attachment) =
            (self.submission.to_string(), self.record.to_string(), self.attachment.to_string());
        let entry = self.entry.to_string();
        let upload = self.upload.to_string();
        let (is_screened, is_graded) = (screening::concerns(command), grading::concerns(command));
        let file = match (forms::concerns(command), is_screened, is_graded) {
            (true, ..) => forms::FILE,
            (_, true, _) => screening::FILE,
            (.., true) => grading::FILE,
            (false, false, false) => uploads::FILE,
        };
        let corpus = if is_graded { &self.graded.corpus } else { &self.screened.corpus };
        let waiver = self.screened.waiver.to_string();
        let (blob, hold) = (self.retained.blob.to_string(), self.retained.hold.to_string());
        let table: [(&str, &str); 27] = [
            ("ENTRY", &entry),
            ("UPLOAD_ID", &upload),
            ("BLOB", &blob),
            ("HOLD", &hold),
            ("TOKEN", &self.retained.token),
            ("HEAD", &self.retained.head),
            ("FILE", file),
            ("RULE", screening::RULE),
            ("PLACE", screening::PLACE),
            ("WAIVER", &waiver),
            ("CORPUS", corpus),
            ("QUESTION", grading::QUESTION),
            ("DIGEST", &self.digest),
            ("KEY_FILE", "key"),
            ("OWNER", "somebody"),
            ("RECORD_ID", &record),
            ("ATTACHMENT_ID", &attachment),
            ("MESSAGE_ID", "maple.x"),
            ("QUEUE_ID", "4XYZ"),
            ("ADDRESS", RECIPIENT),
            ("TEXT", "a-runbook"),
            ("KEY", &delivery()),
            ("FORM", FORM),
            ("ID", &id),
            ("F", FORM),
            ("D", "example.org"),
            ("T", "2h"),
        ];
        // Whole words only: `ID` is none in `ATTACHMENT_ID`, nor `T` in `SELECT`.
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut out = String::new();
        for word in command.split_inclusive(|c: char| !is_word(c)) {
            let bare = word.trim_end_matches(|c: char| !is_word(c));
            let rest = &word[bare.len()..];
            let meant = table.iter().find(|(name, _)| *name == bare).map_or(bare, |(_, value)| *value);
            out.push_str(meant);
            out.push_str(rest);
        }
        out
    }

    /// A reading verb's answer.
    pub(crate) async fn answer(&self, arguments: &[&str]) -> Value {
        self.stage.verb(binary(), arguments).await.expect("the verb runs").json().expect("JSON")
    }

    /// One text of the submission's row.
    pub(crate) async fn row(&self, expression: &str) -> String {
        let eyes = self.stage.database.superuser().await.expect("superuser");
        let sql = format!("SELECT COALESCE(({expression})::text, '') FROM submissions s WHERE id = $1");
        eyes.query_one(&sql, &[&self.submission]).await.expect("the row").get(0)
    }
}

fn submission(command: &str) -> SubmissionSeed {
    let has = |word: &str| command.contains(word);
    let seed = SubmissionSeed::of(FORM);
    if has("--clean --reason") {
        return seed.status("failed").ledger(ended("infected", &json!({}))).attachment("a.pdf", "infected");
    }
    if has(" mark-attachment ") || has(" finalize ") {
        return seed.attachment("a.pdf", "pending");
    }
    if has(" rescreen ") {
        return seed.status("failed").ledger(ended("screened_out", &json!({}))).attachment("a.pdf", "clean");
    }
    let seed = if retention::concerns(command) {
        retention::submission()
    } else {
        seed.attachment("a.pdf", "clean")
    };
    if has(" --abandon ") {
        return seed;
    }
    if has(" --force-action ") || has(" --force-delivery ") || retention::concerns(command) {
        let accepted = json!({"state": "accepted", "at": "2026-11-01T10:00:00Z", "nonce": "n", "token": "t",
            "smtp": {"code": 250, "enhanced": "2.0.0", "reply": "Ok"}, "queue_id": "4XYZ", "message_id": "<m@x>"});
        let ledger = json!({"v": 1, "attempts": 1, "plan": plan(), "deliveries": {delivery(): accepted},
            "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "routed"}});
        return seed.status("routed").ledger(ledger);
    }
    if has(" happyfox ") {
        let mut plan = plan();
        let ticket = json!({"action_order": 2, "action_type": "happyfox_template", "destination": "", "happyfox_category": "General"});
        plan.as_array_mut().expect("a plan").push(ticket);
        let deliveries = json!({delivery(): {"state": "accepted"}, "2|": {"state": "not_implemented"}});
        let ledger = json!({"v": 1, "attempts": 1, "plan": plan, "deliveries": deliveries,
            "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "routed"}});
        return seed.status("routed").ledger(ledger);
    }
    if has(" release ") {
        let ledger = json!({"v": 1, "attempts": 1, "plan": plan(), "deliveries": {delivery(): {"state": "open"}},
            "claim": {"token": "t", "worker": "lost/1", "at": "2026-11-01T10:00:00Z", "deadline": "2026-11-01T10:20:00Z"}});
        return seed.status("processing").age(HOUR).ledger(ledger);
    }
    if has(" replay ") || has(" review ") {
        let reason = if has("exhausted") { "exhausted" } else { "refused" };
        let failed = json!({"state": "failed", "error": {"class": "refused", "stage": "RCPT", "code": 550,
            "enhanced": "5.1.1", "reply": "no such user"}});
        return seed.status("failed").ledger(ended(reason, &json!({delivery(): failed})));
    }
    seed
}

/// A help desk, as the configuration names it.
fn happyfox(stage: &Stage, desk: &HelpDesk) -> String {
    let secret = |name: &str, text: &str| {
        let path = stage.dir().join(name);
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours alone");
        path.display().to_string()
    };
    let (key, code) = (secret("api-key", desk.api_key()), secret("auth-code", desk.auth_code()));
    format!(
        "[happyfox]\nbase_url = \"{}\"\napi_key_file = \"{key}\"\nauth_code_file = \"{code}\"\nfallback_contact_email = \"forms@example.org\"\n",
        desk.base_url()
    )
}

fn delivery() -> String {
    format!("1|{RECIPIENT}")
}

fn plan() -> Value {
    json!([{"action_order": 1, "action_type": "email_raw", "template_id": null, "template": null,
        "destination": RECIPIENT, "subject_template": null, "happyfox_category": null}])
}

fn ended(reason: &str, deliveries: &Value) -> Value {
    json!({"v": 1, "attempts": 1, "plan": plan(), "deliveries": deliveries,
        "finished": {"token": "f", "at": "2026-11-01T10:00:00Z", "status": "failed", "reason": reason}})
}

/// The submission's entry, in a state in which the command makes sense.
async fn entry(stage: &Stage, command: &str) -> Uuid {
    let eyes = stage.database.superuser().await.expect("superuser");
    if command.contains(" reset ") {
        let sql = "UPDATE router.grey_queue SET state = 'Failed', remedy = 'replay', attempts = 3";
        eyes.batch_execute(sql).await.expect("given up on");
    }
    eyes.query_one("SELECT id FROM router.grey_queue", &[]).await.expect("an entry").get(0)
}

/// A dead letter in schema `router`.
async fn record(stage: &Stage) -> Uuid {
    let owner = stage.database.owner_url();
    let migrated =
        stage.verb(binary(), &["migrate", "--router", "--owner-url", &owner]).await.expect("a verb");
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let sql = "INSERT INTO router.dead_letters (id, kind, at, reason, message_id, payload, payload_sha256)
        VALUES (gen_random_uuid(), 'unreadable', now(), 'not JSON', 'm-1', '\\x7b', encode(sha256('\\x7b'), 'hex'))
        RETURNING id";
    backend.query_one(sql, &[]).await.expect("a record").get(0)
}
