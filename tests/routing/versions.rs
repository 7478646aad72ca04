//! A managed form moves on to another version: what is on its way is sent as its own version has it, a replay repeats that, and
//! a replan takes today's. Mails, ledgers and `explain` say the same.

use devkit::forms::{Form, SubmissionSeed};
use devkit::managed::{self, Version};
use devkit::postgres::Variant;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Source, StageOptions};
use devkit::submission::Row;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Scene, binary};

fn form(to: &str) -> Form {
    Form::new("f").mail_to(to)
}

impl Scene {
    async fn with_versions() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let options = StageOptions { variant, ..StageOptions::of(Source::Postgres) };
        Self::with(options, &[form("v0@x.test")], "").await
    }

    async fn follow(&self, to: &str) -> Version {
        managed::promote(&self.stage.database, &form(to)).await.expect("promoted")
    }

    /// A submission that failed because its only recipient was refused.
    async fn refused(&self, to: &str) -> Uuid {
        self.stage.relay.rule(Rule::at(At::Rcpt).to(to).times(1).reply("550 5.1.1 no such user"));
        let id = self.submit(&SubmissionSeed::of("f")).await.id;
        assert_eq!(self.ended(id).await.reason(), Some("refused"));
        self.stage.relay.clear_rules();
        id
    }

    async fn sent_again(&self, id: Uuid, more: &[&str]) -> Row {
        let id_text = id.to_string();
        let arguments = [&["replay", &id_text, "--reason", "mended"], more].concat();
        let answer = self.stage.verb(binary(), &arguments).await.expect("the verb runs");
        assert_eq!(answer.code, Some(0), "{answer:?}");
        self.await_row(id, "end", |row| row.status == "routed").await
    }

    /// Recipients of the mails of one submission.
    fn sent(&self, id: Uuid) -> Vec<String> {
        let of = format!("maple.{}.", id.simple());
        let mails = self.stage.relay.mails();
        let its = mails.iter().filter(|mail| String::from_utf8_lossy(&mail.raw).contains(&of));
        its.flat_map(|mail| mail.recipients.clone()).collect()
    }

    async fn explained(&self, id: Uuid) -> (Value, String) {
        let id = id.to_string();
        let json = self.stage.verb(binary(), &["explain", &id, "--json"]).await.expect("the verb runs");
        let text = self.stage.verb(binary(), &["explain", &id]).await.expect("the verb runs");
        (json.json().expect("JSON"), text.out)
    }
}

fn is_of(row: &Row, version: Option<&Version>) {
    assert_eq!(row.ledger.get("version"), version.map(Version::in_ledger).as_ref(), "{row:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_on_its_way_is_sent_as_its_version_has_it_and_a_replan_takes_todays() {
    let scene = Scene::with_versions().await;
    let unmanaged = scene.submit(&SubmissionSeed::of("f")).await.id;
    is_of(&scene.ended(unmanaged).await, None);
    // The router runs, and has seen nothing of versions yet.
    let first = scene.follow("v1@x.test").await;
    let (kept, taken) = (scene.refused("v1@x.test").await, scene.refused("v1@x.test").await);
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("v1@x.test").reply("451 4.3.0 later"));
    let waits = scene.submit(&SubmissionSeed::of("f")).await.id;
    let deferred = |row: &Row| !row.entry("1|v1@x.test")["error"].is_null();
    is_of(&scene.await_row(waits, "deferral", deferred).await, Some(&first));
    let second = scene.follow("v2@x.test").await;
    scene.stage.relay.clear_rules();
    is_of(&scene.ended(waits).await, Some(&first));
    assert_eq!(scene.sent(waits), ["v1@x.test"]);
    let next = scene.submit(&SubmissionSeed::of("f")).await.id;
    is_of(&scene.ended(next).await, Some(&second));
    assert_eq!(scene.sent(next), ["v2@x.test"]);

    is_of(&scene.sent_again(kept, &[]).await, Some(&first));
    assert_eq!(scene.sent(kept), ["v1@x.test"]);
    is_of(&scene.sent_again(taken, &["--replan"]).await, Some(&second));
    assert_eq!(scene.sent(taken), ["v2@x.test"]);
    // Whoever is no longer managed is of no version.
    managed::abandon(&scene.stage.database, "f").await.expect("abandoned");
    is_of(&scene.sent_again(unmanaged, &["--replan"]).await, None);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_names_the_version_and_says_where_the_form_is_now() {
    let scene = Scene::with_versions().await;
    let before = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.ended(before).await;
    let (json, text) = scene.explained(before).await;
    for key in ["version", "current_version", "version_note"] {
        assert_eq!(json.get(key), None, "{json:#}");
    }
    assert!(!text.contains("version"), "{text}");

    let first = scene.follow("v1@x.test").await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.ended(id).await;
    let (json, text) = scene.explained(id).await;
    assert_eq!((&json["version"], json.get("version_note")), (&first.in_ledger(), None), "{json:#}");
    let named = |version: &Version| format!("version {} (digest {})", version.number, &version.digest[..12]);
    assert!(text.contains(&format!("f \"Form f\" {}\n", named(&first))), "{text}");
    assert!(!text.contains("replan"), "{text}");

    let second = scene.follow("v2@x.test").await;
    let (json, text) = scene.explained(id).await;
    assert_eq!(
        (&json["version"], &json["current_version"]["id"]),
        (&first.in_ledger(), &json!(second.id)),
        "{json:#}"
    );
    let since = json["current_version"]["since"].as_str().expect("since");
    let note = json["version_note"].as_str().expect("a sentence");
    assert!(note.starts_with("the form follows version 2 since 20"), "{note} {since}");
    assert!(note.ends_with("this submission keeps version 1; replay --replan takes today's"), "{note}");
    assert!(text.contains("\nversion   the form follows version 2 since 20"), "{text}");

    // What waits for its scan has no plan yet, and what was pinned before has no version.
    let waits = scene.submit(&SubmissionSeed::of("f").attachment("a", "pending")).await.id;
    let (json, text) = scene.explained(waits).await;
    assert_eq!((json.get("version"), &json["plan_pinned"]), (None, &json!(false)), "{json:#}");
    assert!(text.contains(&format!("{}, not pinned yet", named(&second))), "{text}");
    let note = scene.explained(before).await.0["version_note"].as_str().expect("a sentence").to_owned();
    assert!(note.contains("keeps its plan, which is of none"), "{note}");
    // A table that is not ours hides nothing else.
    scene
        .stage
        .database
        .alter("ALTER TABLE content.versions RENAME digest TO fingerprint")
        .await
        .expect("another");
    let (json, _) = scene.explained(id).await;
    assert_eq!((&json["version"], json.get("current_version")), (&first.in_ledger(), None), "{json:#}");
    scene.stop().await;
}
