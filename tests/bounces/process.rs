//! The real process: what it sends from, and what it makes of what comes back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::{Source, Stage, StageOptions};
use devkit::waiting;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{ADDRESS, SECRET, deliver, list, ours, sample};

const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(50);

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A stage without a broker, whose routers read returned mails.
pub(crate) async fn stage() -> (Stage, PathBuf, String) {
    let options = StageOptions { sample_forms: false, ..StageOptions::of(Source::Postgres) };
    let stage = Stage::start(options).await.expect("a stage");
    let form = Form::new("f").mail_to("a@example.net, b@example.net");
    devkit::forms::load_into(&stage.database, &[form]).await.expect("forms");
    let (maildir, secret) = (stage.dir().join("bounces"), stage.dir().join("bounce-secret"));
    std::fs::write(&secret, format!("{SECRET}\n")).expect("written");
    let extra = format!(
        "[bounces]\naddress = \"{ADDRESS}\"\nmaildir = \"{}\"\nsecret_file = \"{}\"\n",
        maildir.display(),
        secret.display()
    );
    (stage, maildir, extra)
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, log: impl Fn() -> String, so: impl AsyncFn() -> bool) {
    let came = waiting::until(PATIENCE, STEP, so).await;
    assert!(came, "no {what} after {PATIENCE:?}:\n{}", log());
}

pub(crate) async fn ledger(stage: &Stage, id: Uuid) -> (String, Value) {
    let eyes = stage.database.superuser().await.expect("superuser");
    let sql = "SELECT status::text, routing_result FROM submissions WHERE id = $1";
    let row = eyes.query_one(sql, &[&id]).await.expect("the row");
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn it_sends_from_an_address_of_its_own_and_reads_what_comes_back() {
    let (stage, maildir, extra) = stage().await;
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let mut router = stage.router(binary(), "router", &extra).await.expect("a router");
    router.ready().await.expect("ready");
    let id = SubmissionSeed::of("f").insert(&backend).await.expect("a row").id;
    let log = || router.log();
    until("end", log, async || ledger(&stage, id).await.0 == "routed").await;
    let mails = stage.relay.mails();
    assert_eq!(mails.len(), 1);
    let origin = ours().origin(&mails[0].from).unwrap_or_else(|| panic!("{}", mails[0].from));
    assert_eq!((origin.submission, origin.action_order, origin.generation), (id, 1, 0));
    let raw = String::from_utf8_lossy(&mails[0].raw);
    assert!(raw.contains("From: gpus-it-security@greenpeace.org\r\n"), "{raw}");
    assert!(!raw.contains("maple-bounces"), "readers do not see it: {raw}");

    // The mail as Postfix would return it: by the Message-ID and the envelope sender that it was given.
    let message_id = mails[0].message_id.clone().expect("a Message-ID");
    let mail = sample("postfix-failed", origin).replace(&ours().sender(origin), &mails[0].from);
    assert!(mail.contains(&message_id), "{message_id}");
    deliver(&maildir, "1795329067.V1I2M3.maple", &mail);
    deliver(&maildir, "1795329068.V1I2M4.maple", &sample("person", origin));
    until("bounce", log, async || {
        ledger(&stage, id).await.1["deliveries"]["1|b@example.net"]["relay"]["status"] == json!("bounced")
    })
    .await;
    until("move", log, async || list(&maildir, "new").is_empty()).await;
    assert_eq!(list(&maildir, "cur"), ["1795329067.V1I2M3.maple:2,S"]);
    assert_eq!(list(&maildir, ".unread/new"), ["1795329068.V1I2M4.maple"]);
    assert_eq!(ledger(&stage, id).await.0, "routed", "a bounce changes no status by itself");
    for series in [
        "maple_router_delivery_status_total{status=\"bounced\"}",
        "maple_router_returned_mails_total{result=\"reported\"}",
        "maple_router_returned_mails_total{result=\"not_understood\"}",
    ] {
        assert_eq!(router.metric(series).await.expect("metrics"), Some(1.0), "{series}");
    }
    let text = router.log();
    assert!(text.contains("set aside") && !text.contains("b@example.net"), "{text}");
    assert!(!text.contains(&mails[0].from) && !text.contains(SECRET), "{text}");

    // A restart reads what is kept, and finds nothing new.
    assert!(router.stop().await.expect("stops").success());
    let before = ledger(&stage, id).await;
    let mut again = stage.router(binary(), "router", &extra).await.expect("a router");
    again.ready().await.expect("ready");
    let quiet =
        again.metric("maple_router_delivery_status_total{status=\"bounced\"}").await.expect("metrics");
    assert_eq!((quiet, ledger(&stage, id).await), (Some(0.0), before));
    assert!(again.stop().await.expect("stops").success());
}

#[tokio::test]
async fn verbs_send_from_it_too_and_check_looks_at_what_comes_back() {
    let (stage, maildir, extra) = stage().await;
    let config = stage.write_config("verb", &stage.config("verb", 0, &extra)).expect("written");
    let ask = async |arguments: &[&str]| stage.ask(binary(), &config, arguments).await.expect("an answer");
    let line = async || {
        let report = ask(&["check", "--json"]).await.json().expect("JSON");
        let lines = report["lines"].as_array().expect("lines").clone();
        lines.into_iter().find(|line| line["name"] == "bounces").expect("a line")
    };
    assert_eq!(ask(&["test-send", "x@example.net"]).await.code, Some(0));
    let from = stage.relay.mails()[0].from.clone();
    assert_eq!(ours().origin(&from).map(|origin| origin.submission), Some(Uuid::nil()), "{from}");

    let none = line().await;
    assert_eq!(
        (&none["level"], none["detail"].as_str().map(|d| d.contains("no Maildir"))),
        (&json!("warn"), Some(true))
    );
    deliver(&maildir, "1", "x");
    std::fs::create_dir_all(maildir.join("cur")).expect("a directory");
    assert_eq!(line().await["level"], json!("ok"));
    let file = std::fs::File::options().write(true).open(maildir.join("new/1")).expect("a file");
    file.set_modified(std::time::UNIX_EPOCH).expect("its time");
    let waits = line().await;
    assert_eq!(
        (&waits["level"], waits["detail"].as_str().map(|d| d.contains("wait in"))),
        (&json!("warn"), Some(true))
    );
    std::fs::remove_file(maildir.join("new/1")).expect("removed");
    std::fs::create_dir_all(maildir.join(".unread/new")).expect("a directory");
    std::fs::write(maildir.join(".unread/new/1"), "x").expect("written");
    let unread = line().await;
    assert_eq!(
        (&unread["level"], unread["remedy"].as_str().map(|r| r.contains("mutt"))),
        (&json!("warn"), Some(true))
    );
    std::fs::remove_file(maildir.join(".unread/new/1")).expect("removed");
    stage.relay.rule(
        devkit::smtp::Rule::at(devkit::smtp::Stage::Rcpt).reply("550 5.1.1 unknown in local recipient table"),
    );
    let refused = line().await;
    assert_eq!(
        (&refused["level"], refused["detail"].as_str().map(|d| d.contains("550"))),
        (&json!("warn"), Some(true))
    );
    stage.relay.clear_rules();
    std::fs::remove_dir_all(&maildir).expect("removed");
    std::fs::write(&maildir, "a file in its place").expect("written");
    assert_eq!(line().await["level"], json!("fail"));

    let report = ask(&["check", "--json"]).await.json().expect("JSON");
    assert!(
        report.to_string().contains("bounce-secret read from") && !report.to_string().contains(SECRET),
        "{report:#}"
    );
    let off = stage.write_config("off", &stage.config("off", 0, "")).expect("written");
    let report =
        stage.ask(binary(), &off, &["check", "--json"]).await.expect("an answer").json().expect("JSON");
    let of_it =
        report["lines"].as_array().and_then(|lines| lines.iter().find(|line| line["name"] == "bounces"));
    assert_eq!(of_it.map(|line| &line["level"]), Some(&json!("ok")), "{report:#}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_is_refused_at_the_start() {
    let (stage, _, extra) = stage().await;
    for (text, words) in
        [("short\n", "openssl rand -hex 32"), ("", "empty"), ("0123456789abcdef0123\nshort\n", "secret 2")]
    {
        std::fs::write(stage.dir().join("bounce-secret"), text).expect("written");
        let config = stage.write_config("verb", &stage.config("verb", 0, &extra)).expect("written");
        let answer = stage.ask(binary(), &config, &["run"]).await.expect("an answer");
        assert_eq!(answer.code, Some(78), "{answer:?}");
        assert!(answer.err.contains(words) && !answer.err.contains("0123456789abcdef0123"), "{answer:?}");
    }
}
