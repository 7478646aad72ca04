//! A real Postfix, set up as the runbook says: what it cannot deliver it returns to the token's address, and the router
//! reads it there, with its log unreadable.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::time::Duration;

use devkit::forms::SubmissionSeed;
use devkit::postfix::{Postfix, PostfixOptions};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::Stage;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{ADDRESS, list};
use crate::process::{binary, ledger, stage, until};

/// Whom Postfix delivers as here: a user of no privileges, and above `virtual_minimum_uid`.
const NOBODY: u32 = 65_534;

struct Scene {
    stage: Stage,
    postfix: Postfix,
    maildir: PathBuf,
    extra: String,
    _temporary: tempfile::TempDir,
}

/// The lines of runbooks/install.md, \"Returned mails\", but for names.
async fn scene(options: PostfixOptions) -> Scene {
    let (stage, maildir, extra) = stage().await;
    // Postfix's delivery agent must get there.
    let temporary = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o711)).expect("opened");
    let base = temporary.path().join("state");
    std::fs::create_dir(&base).expect("a directory");
    chown(&base, Some(NOBODY), Some(NOBODY)).expect("root may");
    let here = base.join("bounces");
    let domain = ADDRESS.split_once('@').map(|(_, domain)| domain).expect("a domain");
    let settings = [
        ("recipient_delimiter", "+".to_owned()),
        ("virtual_mailbox_domains", domain.to_owned()),
        ("virtual_mailbox_base", base.display().to_string()),
        ("virtual_mailbox_maps", format!("inline:{{{{{ADDRESS} = bounces/}}}}")),
        ("virtual_uid_maps", format!("static:{NOBODY}")),
        ("virtual_gid_maps", format!("static:{NOBODY}")),
    ];
    let postfix =
        Postfix::start(stage.relay.port(), PostfixOptions { settings: settings.to_vec(), ..options });
    let postfix = postfix.await.expect("a Postfix");
    let extra = extra.replace(&maildir.display().to_string(), &here.display().to_string());
    let extra = format!("{extra}[smtp]\nport = {}\n", postfix.port());
    Scene { stage, postfix, maildir: here, extra, _temporary: temporary }
}

impl Scene {
    async fn relay_entry(&self, id: Uuid, key: &str) -> Value {
        ledger(&self.stage, id).await.1["deliveries"][key]["relay"].clone()
    }
}

#[tokio::test]
async fn what_the_next_server_refuses_comes_back_and_is_reported_without_the_log() {
    let scene = scene(PostfixOptions::default()).await;
    let Scene { stage, postfix, maildir, extra, .. } = &scene;
    stage.relay.rule(Rule::at(At::Rcpt).to("b@example.net").reply("550 5.1.1 no such user here"));
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut router = stage.router(binary(), "router", extra).await.expect("a router");
    router.ready().await.expect("ready");
    let id = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let log = || format!("{}\n{}", router.log(), postfix.log());
    until("bounce", log, async || {
        scene.relay_entry(id, "1|b@example.net").await["status"] == json!("bounced")
    })
    .await;
    let (status, row) = ledger(stage, id).await;
    assert_eq!(
        (status.as_str(), &row["deliveries"]["1|b@example.net"]["state"]),
        ("routed", &json!("accepted"))
    );
    assert_eq!(row["deliveries"]["1|a@example.net"]["relay"], Value::Null, "nobody returned that one");
    let entry = scene.relay_entry(id, "1|b@example.net").await;
    assert_eq!(entry["dsn"], json!("5.1.1"), "{entry}");
    assert!(entry["text"].as_str().is_some_and(|text| text.contains("no such user here")), "{entry}");
    assert!(entry["message_id"].as_str().is_some_and(|id| id.starts_with("<maple.")), "{entry}");
    until("move", log, async || list(maildir, "new").is_empty() && list(maildir, "cur").len() == 1).await;
    let mails = stage.relay.mails();
    assert_eq!((mails.len(), mails[0].recipients.len()), (1, 1), "the other one has it");
    assert!(mails[0].from.starts_with("maple-bounces+"), "{}", mails[0].from);
    let answer = stage.ask(binary(), router.config(), &["check", "--json"]).await.expect("an answer");
    let report = answer.json().expect("JSON");
    let line =
        report["lines"].as_array().and_then(|lines| lines.iter().find(|line| line["name"] == "bounces"));
    // The mail was delivered as another user than this test's state directory has.
    let detail = line.and_then(|line| line["detail"].as_str()).unwrap_or_default();
    assert!(detail.contains(&format!("belongs to user {NOBODY}")), "{line:?}");
    assert!(router.stop().await.expect("stops").success());
}

#[tokio::test]
async fn what_waits_too_long_comes_back_as_expired() {
    let options = PostfixOptions { lifetime: Duration::from_secs(2), ..PostfixOptions::default() };
    let scene = scene(options).await;
    let Scene { stage, postfix, extra, .. } = &scene;
    stage.relay.rule(Rule::at(At::Rcpt).to("a@example.net").reply("452 4.2.2 mailbox full"));
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut router = stage.router(binary(), "router", extra).await.expect("a router");
    router.ready().await.expect("ready");
    let id = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let log = || format!("{}\n{}", router.log(), postfix.log());
    until("end", log, async || scene.relay_entry(id, "1|a@example.net").await["status"] == json!("expired"))
        .await;
    assert_eq!(scene.relay_entry(id, "1|a@example.net").await["dsn"], json!("4.2.2"));
    assert!(router.stop().await.expect("stops").success());
}
