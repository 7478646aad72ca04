//! `forms` and `policy`: from a file to what the form does, and back, as people type it; and what is wrong said with a remedy.

use std::fs;
use std::process::Command;

use devkit::forms::Form;
use devkit::postgres::Variant;
use devkit::stage::{Answer, Stage, StageOptions};
use serde_json::{Value, json};

use crate::harness::{run, run_with};

const POLICY: &str = include_str!("../../contrib/policy/publish.rego");

struct Desk {
    stage: Stage,
    extra: String,
}

impl Desk {
    async fn new() -> Self {
        let variant = Variant { router: true, content: true, ..Variant::default() };
        let options = StageOptions { variant, sample_forms: false, ..StageOptions::default() };
        let stage = Stage::start(options).await.expect("a stage");
        devkit::forms::load_into(&stage.database, &[Form::new("rooms").mail_to("old@example.org")])
            .await
            .expect("a form");
        let policy = stage.dir().join("policy");
        fs::create_dir_all(&policy).expect("a directory");
        fs::write(policy.join("publish.rego"), POLICY).expect("a policy");
        let extra = format!(
            "[mail]\nallowed_destination_domains = [\"example.org\"]\n[forms]\npolicy_dir = \"{}\"\npublisher_url = \"{}\"\n",
            policy.display(),
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

    fn file(&self, text: &str) -> String {
        let path = self.stage.dir().join("form.yaml");
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    fn rooms(&self, destination: &str) -> String {
        self.file(&format!(
            "id: rooms\nname: Rooms\nactions:\n  - {{type: email_raw, destination: {destination}}}\nsamples:\n  - {{name: usual}}\n"
        ))
    }
}

#[tokio::test]
async fn a_form_goes_from_its_file_to_what_it_does_and_back() {
    let desk = Desk::new().await;
    let adopted = desk.run(&["forms", "adopt", "rooms"]).await;
    assert!(adopted.code == Some(0) && adopted.out.contains("rooms@1"), "{adopted:?}");
    let loaded = desk.json(&["forms", "load", &desk.rooms("new@example.org")]).await;
    assert_eq!((&loaded["version"], &loaded["new"]), (&json!("rooms@2"), &json!(true)));
    let diff = desk.run(&["forms", "diff", "rooms"]).await;
    assert!(diff.out.contains("from rooms@1 to rooms@2"), "{diff:?}");
    assert!(diff.out.contains("old@example.org  ->  new@example.org"), "{diff:?}");
    let digest = loaded["digest"].as_str().expect("a digest").to_owned();
    let stale = desk.run(&["forms", "publish", "rooms", "--expect", &"ab".repeat(32)]).await;
    assert!(stale.code == Some(1) && stale.err.contains("another content was reviewed"), "{stale:?}");
    let early = desk.run(&["forms", "promote", "rooms@2"]).await;
    assert!(early.code == Some(1) && early.err.contains("promote is not possible while draft"), "{early:?}");
    let published = desk.run(&["forms", "publish", "rooms", "--expect", &digest[..12]]).await;
    assert_eq!(published.code, Some(0), "{published:?}");
    let wrong = desk.run(&["forms", "promote", "rooms@2", "--expect", "0"]).await;
    assert!(wrong.code == Some(1) && wrong.err.contains("another version is current"), "{wrong:?}");
    let promoted = desk.run(&["forms", "promote", "rooms@2", "--expect", "1", "--reason", "moved"]).await;
    assert_eq!(promoted.code, Some(0), "{promoted:?}");
    let listed = desk.json(&["forms", "list"]).await;
    assert_eq!(listed[0]["current"], json!(2), "{listed}");
    let shown = desk.json(&["forms", "show", "rooms@current"]).await;
    assert_eq!((&shown["number"], &shown["is_current"]), (&json!(2), &json!(true)));
    assert_eq!(shown["history"][0]["reason"], json!("moved"));
    let told = desk.run(&["forms", "show", "rooms@2"]).await.out;
    assert!(
        told.contains("promote published -> published") && told.contains("forms rollback rooms"),
        "{told}"
    );
    let back = desk.run(&["forms", "rollback", "rooms"]).await;
    assert!(back.code == Some(0) && back.out.contains("rooms@1: the form follows it again"), "{back:?}");
    let versions = desk.run(&["forms", "list", "rooms"]).await.out;
    assert!(versions.contains("previous") && versions.contains("current"), "{versions}");
    let buried = desk.run(&["forms", "tombstone", "rooms@2", "--reason", "no", "--keep", "7d"]).await;
    assert!(buried.code == Some(0) && buried.out.contains("for 7days it can be restored"), "{buried:?}");
    let kept = desk.run(&["forms", "tombstone", "rooms@1", "--reason", "no"]).await;
    assert!(kept.code == Some(1) && kept.err.contains("promote another first"), "{kept:?}");
    let restored = desk.run(&["forms", "restore", "rooms@2"]).await;
    assert_eq!(restored.code, Some(0), "{restored:?}");
}

/// As an operator types it: a key, a list, the statement through a pipe.
#[tokio::test]
async fn a_version_is_signed_from_the_command_line() {
    let mut desk = Desk::new().await;
    let dir = desk.stage.dir().to_owned();
    let key = dir.join("key");
    let keygen = |arguments: &[&str]| {
        let ended = Command::new("ssh-keygen").arg("-f").arg(&key).args(arguments).output();
        let ended = ended.expect("ssh-keygen runs (Debian: openssh-client)");
        assert!(ended.status.success(), "{ended:?}");
    };
    keygen(&["-q", "-t", "ed25519", "-N", ""]);
    let public = fs::read_to_string(dir.join("key.pub")).expect("a public key");
    let list = dir.join("allowed_signers");
    fs::write(&list, format!("anna@example.org {public}")).expect("a list");
    let loaded = desk.json(&["forms", "load", &desk.rooms("new@example.org")]).await;
    let digest = loaded["digest"].as_str().expect("a digest").to_owned();
    let early = desk.run(&["forms", "sign", "rooms", "/dev/null"]).await;
    assert!(early.code == Some(78) && early.err.contains("forms.allowed_signers names nobody"), "{early:?}");
    desk.extra.push_str(&format!("require_signatures = 1\nallowed_signers = \"{}\"\n", list.display()));
    let refused = desk.run(&["forms", "publish", "rooms", "--expect", &digest]).await;
    assert!(
        refused.code == Some(1) && refused.out.contains("takes 1 people's signatures, and it has 0"),
        "{refused:?}"
    );
    let none = desk.run(&["forms", "sign", "rooms", "/dev/null"]).await;
    assert!(none.code == Some(1) && none.err.contains("ssh-keygen -Y sign -n maple-router-form"), "{none:?}");

    let statement = desk.run(&["forms", "statement", "rooms"]).await;
    assert_eq!(statement.out, format!("maple-router form version\ndigest {digest}\nnumber 1\nform rooms\n"));
    let file = dir.join("statement");
    fs::write(&file, &statement.out).expect("written");
    keygen(&["-q", "-Y", "sign", "-n", "maple-router-form", &file.display().to_string()]);
    let signature = dir.join("statement.sig").display().to_string();
    let signed = desk.json(&["forms", "sign", "rooms", &signature]).await;
    assert_eq!((&signed["signer"], &signed["new"]), (&json!("anna@example.org"), &json!(true)));
    let again = desk.run(&["forms", "sign", "rooms@1", &signature]).await;
    assert!(again.code == Some(0) && again.out.contains("was kept before"), "{again:?}");
    let shown = desk.run(&["forms", "show", "rooms"]).await.out;
    assert!(shown.contains("  signed    ") && shown.contains(", by anna@example.org"), "{shown}");
    let checked = desk.run(&["policy", "test"]).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let published = desk.run(&["forms", "publish", "rooms", "--expect", &digest]).await;
    assert_eq!(published.code, Some(0), "{published:?}");
    fs::write(&list, "").expect("nobody");
    let void = desk.json(&["forms", "show", "rooms"]).await;
    assert!(void["signatures"][0]["void"].as_str().is_some_and(|why| why.contains("nobody's")), "{void:#}");
}

#[tokio::test]
async fn what_is_wrong_is_said_at_once_with_its_place() {
    let desk = Desk::new().await;
    for (text, expected) in [
        ("id: rooms\nname: R\nacttions: []\n", "unknown key `acttions`, did you mean `actions`?"),
        ("id: [", "line 1"),
        (
            "id: rooms\nname: R\nactions:\n  - {type: email_raw, destination: a@example.org, order: 1}\n  \
             - {type: email_raw, destination: b@example.org, order: 1}\n",
            "action 1: two actions have this order",
        ),
    ] {
        let file = desk.file(text);
        let answer = desk.run(&["forms", "load", &file]).await;
        assert!(answer.code == Some(1) && answer.err.contains(expected), "{text}\n{answer:?}");
        let dry = desk.run(&["forms", "load", &file, "--dry-run"]).await;
        assert_eq!(dry.code, Some(1), "{dry:?}");
    }
    let missing = desk.run(&["forms", "load", "/nowhere.yaml"]).await;
    assert!(missing.code == Some(2) && missing.err.contains("/nowhere.yaml"), "{missing:?}");
    for (arguments, code, expected) in [
        (vec!["forms", "show", "rooms@7"], 1, "there is no version rooms@7"),
        (vec!["forms", "show", "rooms@x"], 2, "write FORM@NUMBER"),
        (vec!["forms", "rollback", "rooms"], 1, "forms adopt rooms"),
        (vec!["forms", "show", "rooms@current"], 1, "is not managed"),
        (vec!["forms", "adopt", "nobody"], 1, "there is no form \"nobody\""),
    ] {
        let answer = desk.run(&arguments).await;
        assert!(answer.code == Some(code) && answer.err.contains(expected), "{arguments:?}: {answer:?}");
    }
    let loaded = desk.json(&["forms", "load", &desk.rooms("a@evil.test")]).await;
    let digest = loaded["digest"].as_str().expect("a digest");
    let refused = desk.run(&["forms", "publish", "rooms", "--expect", digest]).await;
    assert!(refused.code == Some(1) && refused.out.contains("evil.test"), "{refused:?}");
    assert!(!refused.out.contains("a@evil.test"), "no recipient in a reason: {refused:?}");
    let short = desk.run(&["forms", "publish", "rooms", "--expect", "abc"]).await;
    assert_eq!(short.code, Some(2), "{short:?}");
}

#[tokio::test]
async fn the_policy_is_tried_without_a_database() {
    let desk = Desk::new().await;
    let good = desk.run(&["policy", "test", &desk.rooms("a@example.org")]).await;
    assert!(good.code == Some(0) && good.out.contains("allowed"), "{good:?}");
    let bad = desk.run(&["policy", "test", &desk.rooms("a@evil.test")]).await;
    assert!(bad.code == Some(1) && bad.out.contains("mail may not go there"), "{bad:?}");
    let policy = desk.stage.dir().join("policy/publish.rego");
    for (text, expected) in [
        ("package maple.publish\nallow if {", "publish.rego"),
        ("package maple.publish\ndefault allow := true\n", "not to be believed"),
    ] {
        fs::write(&policy, text).expect("written");
        let answer = desk.run(&["policy", "test"]).await;
        assert!(answer.code == Some(78) && answer.err.contains(expected), "{answer:?}");
    }
    fs::remove_file(&policy).expect("removed");
    let none = desk.run(&["policy", "test"]).await;
    assert!(none.code == Some(78) && none.err.contains("there is no policy"), "{none:?}");
}

#[tokio::test]
async fn without_the_schema_the_remedy_is_named() {
    let options = StageOptions { sample_forms: false, ..StageOptions::default() };
    let stage = Stage::start(options).await.expect("a stage");
    let answer = run(&stage, &["forms", "list"]).await;
    assert!(answer.code == Some(78) && answer.err.contains("migrate --content"), "{answer:?}");
}
