//! `check --send`: one post, one mail, and their lines tell.

use devkit::slack::Mishap;
use devkit::smtp::{Rule, Stage as At};

use crate::harness::{Report, config, healthy, report, verb};

async fn send(stage: &devkit::stage::Stage) -> Report {
    let said = verb(stage, &config(stage), &["check", "--send", "--json"]).await;
    assert!(!said.all().contains("gpus-it-security"), "no addresses are shown: {said:?}");
    report(&said)
}

#[tokio::test]
async fn send_posts_and_mails_once() {
    let stage = healthy().await;
    let before = crate::harness::check(&stage, &config(&stage)).await;
    let sent = send(&stage).await;
    assert_eq!(sent.changes(&before), [], "{sent:#?}");
    assert_eq!((sent.ok, sent.code), (true, 0));

    let messages = stage.slack.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].text.contains("test"), "{messages:?}");

    let mails = stage.relay.mails();
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].recipients, ["gpus-it-security@greenpeace.org"]);
    let parsed = mail_parser::MessageParser::default().parse(&mails[0].raw).expect("a mail");
    assert_eq!(parsed.subject(), Some("maple-router check: this is a test"));
    assert!(parsed.message_id().is_some() && parsed.date().is_some());
    assert!(parsed.body_text(0).expect("a text").contains("check --send"));
    assert!(sent.detail("relay").contains("took the test mail"), "{sent:#?}");

    send(&stage).await;
    let mails = stage.relay.mails();
    let id = |n: usize| {
        let parsed = mail_parser::MessageParser::default().parse(&mails[n].raw).expect("a mail");
        parsed.message_id().map(str::to_owned)
    };
    assert_ne!(id(0), id(1), "a second test must not vanish as a duplicate");
}

#[tokio::test]
async fn what_is_refused_fails_its_line_only() {
    let stage = healthy().await;
    let before = crate::harness::check(&stage, &config(&stage)).await;
    stage.relay.rule(Rule::at(At::Rcpt).reply("550 5.1.1 <gpus-it-security@greenpeace.org>: no such user"));
    let refused = send(&stage).await;
    assert_eq!(refused.changes(&before), [("relay", "fail")], "{refused:#?}");
    assert!(refused.detail("relay").contains("no such user"), "{refused:#?}");
    stage.relay.clear_rules();

    stage.slack.script().always(Mishap::Status(404));
    let refused = send(&stage).await;
    assert_eq!(refused.changes(&before), [("slack", "fail")], "{refused:#?}");
    assert!(refused.detail("slack").contains("no_service"), "{refused:#?}");
}
