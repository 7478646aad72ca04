//! `retention`, `hold`, `erase`, `gc`, `receipts` and `links revoke`, as people type them; and what is wrong said with a remedy.

use devkit::forms::{Form, SubmissionSeed};
use devkit::google::{Bucket, Right};
use devkit::postgres::Variant;
use devkit::stage::{Answer, Stage, StageOptions};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{ledger, run, run_with, seed};

/// The bucket of the files, with nothing else in it.
const BUCKET: &str = "files";

struct Desk {
    stage: Stage,
    extra: String,
}

impl Desk {
    /// The host's own account is the collector's.
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::start(options).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::new("rooms").mail_to("a@example.org")])
            .await
            .expect("a form");
        let account = stage.google.service_account_email().to_owned();
        stage.google.declare_bucket(BUCKET, Bucket::default());
        stage.google.grant(&account, BUCKET, &Right::ALL);
        let extra = format!(
            "[retention]\ncollector_url = \"{}\"\n[forms]\npublisher_url = \"{}\"\n",
            stage.database.url_as("maple_gc"),
            stage.database.url_as("forms_loader")
        );
        Self { stage, extra }
    }

    async fn run(&self, arguments: &[&str]) -> Answer {
        run_with(&self.stage, &self.extra, arguments).await
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let answer = self.run(&[arguments, &["--json"]].concat()).await;
        answer.json().unwrap_or_else(|error| panic!("{arguments:?}: {error}: {answer:?}"))
    }

    async fn sql(&self, sql: &str) {
        let eyes = self.stage.database.superuser().await.expect("superuser");
        eyes.batch_execute(sql).await.expect(sql);
    }

    /// A submission with a file that was routed; nobody has to decide about it.
    async fn routed(&self, address: &str) -> Uuid {
        let row =
            SubmissionSeed::of("rooms").field("email", address).bucket(BUCKET).attachment("cv.pdf", "clean");
        let id = seed(&self.stage, row).await.id;
        self.stage.google.put_object(BUCKET, &format!("submissions/{id}/1-cv.pdf"), "application/pdf", "x");
        let ended =
            r#"{"v": 1, "finished": {"token": "t", "at": "2026-01-01T00:00:00Z", "status": "routed"}}"#;
        self.sql(&format!(
            "UPDATE submissions SET status = 'routed', routing_result = '{ended}' WHERE id = '{id}'; DELETE FROM router.outbox"
        ))
        .await;
        id
    }
}

#[tokio::test]
async fn a_persons_data_is_listed_first_and_erased_as_it_was_listed() {
    let desk = Desk::new().await;
    let (hers, other) = (desk.routed("Zoe@example.org").await, desk.routed("max@example.org").await);
    let field = "email=zoe@EXAMPLE.org";
    let dry = desk.run(&["erase", "--field", field, "--dry-run"]).await;
    assert!(dry.code == Some(0) && dry.out.contains("would be erased: 1 fields, 1 files"), "{dry:?}");
    assert!(dry.out.contains(&hers.to_string()) && !dry.out.contains(&other.to_string()), "{dry:?}");
    assert!(!dry.out.contains("Zoe"), "no value is shown: {dry:?}");
    let listed = desk.json(&["erase", "--field", field, "--dry-run"]).await;
    let token = listed["expect"].as_str().expect("a token").to_owned();
    assert!(dry.out.contains(&token), "{dry:?}");
    // What was listed is what is erased: another one that comes meanwhile is nobody's decision.
    let late = desk.routed("zoe@example.org").await;
    let erase = ["erase", "--field", field, "--expect", &token, "--reason", "asked by mail of 2026-11-27"];
    let moved = desk.run(&erase).await;
    assert!(moved.code == Some(1) && moved.err.contains("nothing was erased"), "{moved:?}");
    desk.sql(&format!("DELETE FROM submissions WHERE id = '{late}'")).await;
    let done = desk.run(&erase).await;
    assert!(done.code == Some(0) && done.out.contains(&format!("{hers}: erased")), "{done:?}");
    assert!(done.err.contains("submission_erased") && !done.err.contains("Zoe"), "{done:?}");
    let waits = desk.run(&["receipts", "show", &hers.to_string()]).await;
    assert!(waits.code == Some(1) && waits.out.contains("its object is not deleted yet"), "{waits:?}");
    let ran = desk.run(&["gc", "run"]).await;
    assert!(ran.code == Some(0) && ran.out.contains("1 objects deleted"), "{ran:?}");
    let shown = desk.run(&["receipts", "show", &hers.to_string()]).await;
    assert!(shown.code == Some(0), "{shown:?}");
    assert!(
        shown.out.contains("erased") && shown.out.contains("the store could bring it back until"),
        "{shown:?}"
    );
    let again = desk.run(&["erase", &hers.to_string(), "--dry-run"]).await;
    assert!(again.out.contains("is emptied already"), "{again:?}");
    let explained = desk.run(&["explain", &hers.to_string()]).await;
    assert!(explained.out.contains("PURGED"), "{explained:?}");
    // The other one is as it was.
    assert!(desk.stage.google.object(BUCKET, &format!("submissions/{other}/1-cv.pdf")).is_some());
}

#[tokio::test]
async fn a_hold_beats_an_erasure_and_explain_says_so() {
    let desk = Desk::new().await;
    let id = desk.routed("zoe@example.org").await.to_string();
    let placed = desk.json(&["hold", "place", "--submission", &id, "--reason", "case 7"]).await;
    assert_eq!(placed["hold"], 1, "{placed}");
    let listed = desk.run(&["hold", "list"]).await;
    assert!(listed.out.contains(&id) && listed.out.contains("case 7"), "{listed:?}");
    let dry = desk.run(&["erase", &id, "--dry-run"]).await;
    assert!(dry.code == Some(1) && dry.out.contains("would be kept: a hold names it"), "{dry:?}");
    let explained = desk.run(&["explain", &id]).await;
    assert!(explained.out.contains("retention leaves it: a hold names it"), "{explained:?}");
    let document = desk.json(&["explain", &id]).await;
    assert_eq!(document["kept"]["why"], "held", "{:#}", document["kept"]);
    let lifted = desk.run(&["hold", "lift", "1", "--reason", "over"]).await;
    assert_eq!(lifted.code, Some(0), "{lifted:?}");
    let twice = desk.run(&["hold", "lift", "1", "--reason", "over"]).await;
    assert!(twice.code == Some(1) && twice.err.contains("hold list --all"), "{twice:?}");
    let all = desk.run(&["hold", "list", "--all"]).await;
    assert!(all.out.contains("lifted"), "{all:?}");
    let nobody = desk.run(&["hold", "place", "--form", "romos", "--reason", "r"]).await;
    assert!(nobody.code == Some(1) && nobody.err.contains("did you mean rooms?"), "{nobody:?}");
}

#[tokio::test]
async fn what_is_kept_how_long_is_said_and_goes_by_a_run() {
    let desk = Desk::new().await;
    let id = desk.routed("zoe@example.org").await;
    let none = desk.run(&["retention", "list"]).await;
    assert!(none.out.contains("retention_expires_at alone"), "{none:?}");
    let short = desk.run(&["retention", "set", "--routed", "1h"]).await;
    assert!(short.code == Some(2) && short.err.contains("less than a day"), "{short:?}");
    let set = desk.run(&["retention", "set", "rooms", "--routed", "400d", "--failed", "800d"]).await;
    assert!(set.code == Some(0) && set.err.contains("retention_set"), "{set:?}");
    let explained = desk.json(&["explain", &id.to_string()]).await;
    assert_eq!(explained["kept"]["why"], "not_yet", "{:#}", explained["kept"]);
    desk.sql("UPDATE submissions SET created_at = now() - interval '401 days'").await;
    let ran = desk.json(&["gc", "run"]).await;
    assert_eq!((&ran["outcome"], &ran["counts"]["purged"]), (&json!("done"), &json!(1)), "{ran:#}");
    let status = desk.run(&["gc", "status"]).await;
    assert!(
        status.out.contains("form rooms: routed submissions are kept for") && status.out.contains("run 1 of"),
        "{status:?}"
    );
    let unset = desk.run(&["retention", "unset", "rooms"]).await;
    assert_eq!(unset.code, Some(0), "{unset:?}");
    let twice = desk.run(&["retention", "unset", "rooms"]).await;
    assert!(twice.code == Some(1) && twice.err.contains("retention list"), "{twice:?}");
    let verified = desk.json(&["receipts", "verify"]).await;
    let head = format!("{}:{}", verified["receipts"], verified["head"].as_str().expect("a head"));
    let expected = desk.run(&["receipts", "verify", "--expect", &head]).await;
    assert_eq!(expected.code, Some(0), "{expected:?}");
    let other = desk.run(&["receipts", "verify", "--expect", &head.replace(':', ":0")]).await;
    assert!(other.code == Some(1) && other.err.contains("cut off or written anew"), "{other:?}");
    // Bucket and rows agree.
    let compared = desk.run(&["gc", "reconcile"]).await;
    assert!(compared.code == Some(0) && compared.out.contains("0 objects that no row names"), "{compared:?}");
    desk.stage.google.put_object(BUCKET, "a stranger", "text/plain", "x");
    let stranger = desk.run(&["gc", "reconcile"]).await;
    assert!(stranger.code == Some(1) && stranger.out.contains("a stranger"), "{stranger:?}");
}

#[tokio::test]
async fn mailed_links_are_recalled_and_made_anew() {
    let desk = Desk::new().await;
    let id = desk.routed("zoe@example.org").await;
    let text = id.to_string();
    let link = |links: &Value| links[0]["url"].as_str().expect("a url").to_owned();
    let mailed = link(&desk.json(&["links", &text]).await);
    assert_eq!(reqwest::get(&mailed).await.expect("an answer").status(), 200);
    let revoked = desk.run(&["links", "revoke", &text, "--reason", "infected"]).await;
    assert!(revoked.code == Some(0) && revoked.out.contains("1 files: every link"), "{revoked:?}");
    assert!(revoked.err.contains("links_revoked"), "{revoked:?}");
    assert_eq!(reqwest::get(&mailed).await.expect("an answer").status(), 404);
    let entry = &ledger(&desk.stage, id).await["overrides"][1];
    assert_eq!((&entry["verb"], &entry["reason"]), (&json!("links revoke"), &json!("infected")), "{entry:#}");
    let anew = link(&desk.json(&["links", &text]).await);
    assert_eq!(reqwest::get(&anew).await.expect("an answer").text().await.expect("a body"), "x");
    let no_reason = desk.run(&["links", "revoke", &text]).await;
    assert_eq!(no_reason.code, Some(2), "{no_reason:?}");
}

#[tokio::test]
async fn what_is_missing_is_said_with_its_remedy() {
    let desk = Desk::new().await;
    let nobody = run(&desk.stage, &["gc", "run"]).await;
    assert!(nobody.code == Some(78) && nobody.err.contains("retention.collector_url"), "{nobody:?}");
    let extra =
        format!("[retention]\ncollector_url = \"{}\"\n", desk.stage.database.url_as("forms_readonly"));
    let wrong = run_with(&desk.stage, &extra, &["gc", "run"]).await;
    assert!(wrong.code == Some(78) && wrong.err.contains("role maple_gc"), "{wrong:?}");
    let unknown = desk.run(&["erase", &Uuid::nil().to_string(), "--dry-run"]).await;
    assert!(unknown.code == Some(1) && unknown.err.contains("there is no submission"), "{unknown:?}");
    for (arguments, word) in [
        (&["erase", "--dry-run"][..], "<ID"),
        (&["erase", "--field", "email", "--dry-run"], "NAME=VALUE"),
        (&["erase", "--field", "email= ", "--dry-run"], "everybody"),
        (&["hold", "place", "--reason", "r"], "--submission"),
        (&["receipts", "verify", "--expect", "x"], "NUMBER:DIGEST"),
    ] {
        let answer = desk.run(arguments).await;
        assert!(answer.code == Some(2) && answer.err.contains(word), "{arguments:?}: {answer:?}");
    }
    let none = desk.run(&["erase", "--field", "email=nobody@example.org", "--dry-run"]).await;
    assert!(none.code == Some(1) && none.err.contains("no submission has this value"), "{none:?}");
    let blob = desk.run(&["gc", "undelete", &Uuid::nil().to_string(), "--reason", "r"]).await;
    assert!(blob.code == Some(1) && blob.err.contains("there is no blob"), "{blob:?}");
    let without =
        Stage::start(StageOptions { sample_forms: false, ..StageOptions::default() }).await.expect("a stage");
    for arguments in [&["hold", "list"][..], &["gc", "status"], &["receipts", "verify"]] {
        let answer = run(&without, arguments).await;
        assert!(
            answer.code == Some(78) && answer.err.contains("migrate --content"),
            "{arguments:?}: {answer:?}"
        );
    }
}
