//! The real Postfix of a test: mail goes through to the scripted upstream, whatever that does stands in the log, restarts and
//! rotations lose nothing, and nothing is left of it.

use std::time::Duration;

use devkit::postfix::{Postfix, PostfixOptions, Rotation};
use devkit::smtp::{RelayWire, Rule, SmtpOptions, SmtpServer, Stage, WireTrap, submit};
use devkit::waiting;

const PATIENCE: Duration = Duration::from_secs(60);

async fn rig() -> (SmtpServer, Postfix) {
    with(PostfixOptions::default()).await
}

async fn with(options: PostfixOptions) -> (SmtpServer, Postfix) {
    let upstream = SmtpServer::start(SmtpOptions::default()).await.expect("an upstream");
    let postfix = Postfix::start(upstream.port(), options).await.expect("a Postfix");
    (upstream, postfix)
}

/// Larger than what Postfix's smtpd keeps for itself before cleanup gets to see it.
fn message(id: &str) -> String {
    let body = "hello\r\n".repeat(2_000);
    format!("From: s@x.test\r\nSubject: x\r\nMessage-ID: <{id}@x.test>\r\n\r\n{body}")
}

/// Waits until the port has no listener, as soon as the system is done with the killed processes.
async fn deserted(port: u16) {
    for _ in 0..500 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("somebody still listens on port {port}");
}

async fn mail(postfix: &Postfix, to: &[&str], id: &str) -> String {
    submit(postfix.port(), "s@x.test", to, &message(id)).await.expect("taken")
}

#[tokio::test]
async fn mail_goes_through_and_a_refused_recipient_is_known_only_later() {
    let (upstream, postfix) = rig().await;
    upstream.rule(Rule::at(Stage::Rcpt).to("b@x.test").reply("550 5.1.1 <b@x.test>: User unknown"));
    let id = mail(&postfix, &["a@x.test", "b@x.test", "c@x.test"], "one").await;
    postfix.logged(&[&id, "message-id=<one@x.test>"], PATIENCE).await.unwrap();
    let refused = postfix.logged(&[&id, "to=<b@x.test>", "status=bounced"], PATIENCE).await.unwrap();
    assert!(refused.contains("dsn=5.1.1"), "{refused}");
    postfix.logged(&[&id, "to=<a@x.test>", "status=sent"], PATIENCE).await.unwrap();
    postfix.logged(&[&id, "removed"], PATIENCE).await.unwrap();
    let mails = upstream.await_mails(2, PATIENCE).await.unwrap();
    let ours = mails.iter().find(|mail| mail.from == "s@x.test").expect("our mail");
    assert_eq!(ours.recipients, ["a@x.test", "c@x.test"]);
    assert_eq!(ours.message_id.as_deref(), Some("one@x.test"));
    let returned = mails.iter().find(|mail| mail.from.is_empty()).expect("the sender is notified by mail");
    assert_eq!(returned.recipients, ["s@x.test"]);
}

#[tokio::test]
async fn a_deferred_mail_is_queued_tried_again_and_delivered() {
    let (upstream, postfix) = rig().await;
    upstream.rule(Rule::at(Stage::Rcpt).times(2).reply("452 4.2.2 mailbox full"));
    let id = mail(&postfix, &["a@x.test"], "late").await;
    let deferred = postfix.logged(&[&id, "status=deferred"], PATIENCE).await.unwrap();
    assert!(deferred.contains("dsn=4.2.2"), "{deferred}");
    postfix.logged(&[&id, "status=sent"], PATIENCE).await.unwrap();
    postfix.emptied(PATIENCE).await.unwrap();
    assert_eq!(upstream.counters().mails, 1);
}

#[tokio::test]
async fn an_upstream_without_tls_is_no_upstream_where_tls_is_demanded() {
    let settings = vec![("smtp_tls_security_level", "encrypt".to_owned())];
    let (upstream, postfix) = with(PostfixOptions { settings, ..PostfixOptions::default() }).await;
    let id = mail(&postfix, &["a@x.test"], "secret").await;
    let deferred = postfix.logged(&[&id, "status=deferred"], PATIENCE).await.unwrap();
    assert!(deferred.contains("TLS is required, but was not offered"), "{deferred}");
    let queued = postfix.queue().await.unwrap();
    assert_eq!(queued[0]["queue_id"], id.as_str());
    assert_eq!(queued[0]["recipients"][0]["address"], "a@x.test");
    postfix.set("smtp_tls_security_level", "none").await.unwrap();
    postfix.logged(&[&id, "status=sent"], PATIENCE).await.unwrap();
    assert_eq!(upstream.counters().mails, 1);
}

#[tokio::test]
async fn what_waits_too_long_is_returned() {
    let lifetime = Duration::from_secs(1);
    let (upstream, postfix) = with(PostfixOptions { lifetime, ..PostfixOptions::default() }).await;
    upstream.rule(Rule::at(Stage::Rcpt).to("a@x.test").reply("450 4.2.0 not now"));
    let id = mail(&postfix, &["a@x.test"], "never").await;
    postfix.logged(&[&id, "status=expired, returned to sender"], PATIENCE).await.unwrap();
    postfix.logged(&[&id, "removed"], PATIENCE).await.unwrap();
}

#[tokio::test]
async fn queue_and_log_survive_restarts_kills_and_rotation() {
    let (upstream, postfix) = rig().await;
    upstream.stop().await;
    let id = mail(&postfix, &["a@x.test"], "patient").await;
    postfix.logged(&[&id, "status=deferred"], PATIENCE).await.unwrap();
    postfix.restart().await.unwrap();
    postfix.logged(&["daemon started"], PATIENCE).await.unwrap();
    assert_eq!(postfix.queue().await.unwrap().len(), 1, "the queue survives a restart");
    let old = postfix.rotate(Rotation::Renamed).await.unwrap().expect("a name");
    assert!(std::fs::read_to_string(old).unwrap().contains(&id));
    postfix.logged(&[&id, "status=deferred"], PATIENCE).await.expect("it goes on in a new file");
    postfix.kill().await.unwrap();
    deserted(postfix.port()).await;
    upstream.restart().await.unwrap();
    postfix.up().await.unwrap();
    postfix.rotate(Rotation::Postfix).await.unwrap();
    let came = upstream.await_mails(1, PATIENCE).await;
    assert!(came.is_ok(), "{came:?}: {:?}\n{}", postfix.queue().await, postfix.log());
    let second = mail(&postfix, &["b@x.test"], "after").await;
    postfix.logged(&[&second, "status=sent"], PATIENCE).await.unwrap();
    postfix.emptied(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn several_run_side_by_side_and_nothing_is_left_of_them() {
    let ((one, first), (two, second)) = tokio::join!(rig(), rig());
    mail(&first, &["a@x.test"], "first").await;
    mail(&second, &["a@x.test"], "second").await;
    let came = async |upstream: &SmtpServer| {
        let mails = upstream.await_mails(1, PATIENCE).await.unwrap();
        mails[0].message_id.clone().unwrap_or_default()
    };
    assert_eq!((came(&one).await.as_str(), came(&two).await.as_str()), ("first@x.test", "second@x.test"));
    let (root, port, master) = (first.config_directory(), first.port(), first.master().unwrap());
    drop(first);
    assert!(!root.exists(), "its files are gone");
    deserted(port).await;
    let state = || std::fs::read_to_string(format!("/proc/{master}/stat")).unwrap_or_default();
    // A process that was killed is still there while the kernel takes it apart.
    let ended = async || state().is_empty() || state().contains(") Z ");
    let in_time = waiting::until(PATIENCE, Duration::from_millis(5), ended).await;
    assert!(in_time, "master lives: {}", state());
    mail(&second, &["b@x.test"], "still there").await;
}

#[tokio::test]
async fn the_wire_stands_still_before_the_dot_and_before_its_answer() {
    let (upstream, postfix) = rig().await;
    let wire = RelayWire::start(postfix.port()).await.unwrap();
    let send = async |id: &'static str| submit(wire.port(), "s@x.test", &["a@x.test"], &message(id)).await;

    let trapped = wire.trap(WireTrap::DotSent, 1);
    let cut = tokio::join!(send("cut"), async {
        trapped.hit(PATIENCE).await.unwrap();
        postfix.logged(&["cleanup", "message-id=<cut@x.test>"], PATIENCE).await.unwrap();
        trapped.cut();
    });
    assert!(cut.0.is_err(), "{:?}", cut.0);
    postfix.logged(&["lost connection after DATA"], PATIENCE).await.unwrap();
    assert!(postfix.queue().await.unwrap().is_empty(), "without its dot there is no mail");

    let trapped = wire.trap(WireTrap::DotAnswered, 1);
    let cut = tokio::join!(send("unread"), async {
        trapped.hit(PATIENCE).await.unwrap();
        upstream.await_mails(1, PATIENCE).await.unwrap();
        trapped.cut();
    });
    assert!(cut.0.is_err(), "{:?}", cut.0);

    let trapped = wire.trap(WireTrap::DotSent, 1);
    let sent = tokio::join!(send("late"), async {
        trapped.hit(PATIENCE).await.unwrap();
        trapped.release();
    });
    assert!(sent.0.is_ok(), "{:?}", sent.0);
    let ids = async || upstream.await_mails(2, PATIENCE).await.unwrap();
    let ids: Vec<_> = ids().await.iter().filter_map(|mail| mail.message_id.clone()).collect();
    assert_eq!(ids, ["unread@x.test", "late@x.test"]);
}
