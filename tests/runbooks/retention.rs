//! What commands about retention need: schema content, a submission that has ended with its file in the store, the collector's role and
//! account, and what was held, erased or lost its last reference before.

use std::path::Path;

use devkit::forms::SubmissionSeed;
use devkit::google::Right;
use devkit::stage::Stage;
use serde_json::Value;
use uuid::Uuid;

use crate::here::binary;
use crate::scene::{FORM, RECIPIENT};

/// Bucket of the attachments.
const BUCKET: &str = "maple-uploads";
/// File that has the address of whoever wants their data erased.
const ADDRESS_FILE: &str = "address";
/// Name and bytes of the submission's file.
const FILE: (&str, &[u8]) = ("a.pdf", b"%PDF-1.4\nof a runbook\n");

/// Whether a command is about retention.
pub(crate) fn concerns(command: &str) -> bool {
    [" gc ", " hold ", " erase ", " receipts ", " retention ", " links revoke "]
        .iter()
        .any(|verb| command.contains(verb))
}

/// A submission with a file and an address in a field.
pub(crate) fn submission() -> SubmissionSeed {
    SubmissionSeed::of(FORM).field("email", RECIPIENT).file(FILE.0, "application/pdf", FILE.1).bucket(BUCKET)
}

/// What there is beside a command.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Sections of the configuration.
    pub(crate) extra: String,
    /// The blob of the submission's file.
    pub(crate) blob: Uuid,
    /// What a dry run of the erasure said.
    pub(crate) token: String,
    /// The end of the chain of receipts.
    pub(crate) head: String,
    /// A hold.
    pub(crate) hold: i64,
}

/// The parts of retention, and what was done before a command.
pub(crate) async fn beside(stage: &Stage, command: &str, submission: Uuid) -> Beside {
    let object = format!("submissions/{submission}/1-{}", FILE.0);
    stage.google.put_object(BUCKET, &object, "application/pdf", FILE.1);
    // The host's own account is the collector's.
    let account = stage.google.service_account_email().to_owned();
    stage.google.grant(&account, BUCKET, &Right::ALL);
    std::fs::write(stage.dir().join(ADDRESS_FILE), format!("{RECIPIENT}\n")).expect("a file");
    let (collector, publisher) = (stage.database.url_as("maple_gc"), stage.database.url_as("forms_loader"));
    let extra =
        format!("[retention]\ncollector_url = \"{collector}\"\n[forms]\npublisher_url = \"{publisher}\"\n");
    let config = stage.write_config("earlier", &stage.config("earlier", 0, &extra)).expect("a configuration");
    let eyes = stage.database.superuser().await.expect("superuser");
    let blob = eyes.query_one("SELECT id FROM content.blobs", &[]).await.expect("the file's blob").get(0);
    let mut beside = Beside { extra, blob, ..Beside::default() };
    let (id, says) = (submission.to_string(), |word: &str| command.contains(word));
    if says(" undelete ") {
        eyes.execute("DELETE FROM attachments", &[]).await.expect("the last reference is gone");
    }
    if says(" lift ") {
        let held = said(stage, &config, &["hold", "place", "--all", "--reason", "earlier"]).await;
        beside.hold = held["hold"].as_i64().expect("a number");
    }
    if says(" unset ") {
        said(stage, &config, &["retention", "set", FORM, "--routed", "400d"]).await;
    }
    if says(" --expect TOKEN") || says(" receipts ") {
        let looked = said(stage, &config, &["erase", &id, "--dry-run"]).await;
        beside.token = looked["expect"].as_str().expect("a token").to_owned();
    }
    if says(" receipts ") {
        said(stage, &config, &["erase", &id, "--expect", &beside.token, "--reason", "earlier"]).await;
        said(stage, &config, &["gc", "run"]).await;
        let chain = said(stage, &config, &["receipts", "verify"]).await;
        beside.head = format!("{}:{}", chain["receipts"], chain["head"].as_str().expect("a digest"));
    }
    beside
}

/// The document that a verb answers.
async fn said(stage: &Stage, config: &Path, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    let answer = stage.ask(binary(), config, &arguments).await.expect("the verb runs");
    assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
    answer.json().expect("JSON")
}
