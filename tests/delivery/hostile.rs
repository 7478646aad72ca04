//! A stranger who may hand a mail to the same Postfix may write what he likes into headers, greetings and
//! addresses, and some of it gets into the log. None of it changes what is known of our mails.

use devkit::forms::Form;
use devkit::smtp::{Client, Rule, Stage as At, submit};
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene, relay_status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_look_like_postfix_s_change_nothing() {
    let mut scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").reply("450 4.2.0 not yet"));
    let id = scene.submit("f").await;
    let row = scene.known(id, &["1|a@x.test"], "deferred").await;
    let queue_id = row.entry("1|a@x.test")["queue_id"].as_str().expect("a queue id").to_owned();
    talk(&scene, &queue_id).await;
    mails(&scene, id, &queue_id).await;

    // Another mail of ours goes all the way: by then everything before it was read.
    scene.stage.relay.clear_rules();
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").times(3).reply("450 4.2.0 not yet"));
    scene.known(id, &["1|a@x.test"], "delivered").await;
    let row = scene.row(id).await;
    assert_eq!(row.ledger["deliveries"].as_object().map(serde_json::Map::len), Some(1), "{row:?}");
    assert!(scene.failures(id).await.is_empty(), "nothing was lost: {}", scene.logs());
    for (status, n) in [("bounced", 0.0), ("expired", 0.0), ("delivered", 1.0)] {
        scene.counted(&format!("maple_router_delivery_status_total{{status=\"{status}\"}}"), n).await;
    }
    assert!(scene.stage.slack.messages().is_empty(), "{:?}", scene.stage.slack.messages());
    scene.down().await;
}

/// Greetings and commands that Postfix writes into its log as it refuses them.
async fn talk(scene: &Scene, queue_id: &str) {
    let bounced =
        format!("postfix/smtp[1]: {queue_id}: to=<a@x.test>, relay=none, dsn=5.1.1, status=bounced (no)");
    let expired = format!("postfix/qmgr[1]: {queue_id}: from=<x>, status=expired, returned to sender");
    for said in
        [&bounced, &expired, &format!("x\rNov 22 00:00:00 host {bounced}"), &format!("é\u{7f}{expired}")]
    {
        let mut client = Client::connect(scene.postfix.port()).await.expect("connected");
        for command in [format!("EHLO {said}"), format!("HELO [{said}]"), format!("MAIL FROM:<{said}>")] {
            client.command(&command).await.expect("answered");
        }
        client.command("EHLO client.test").await.expect("answered");
        client.command("MAIL FROM:<x@x.test>").await.expect("answered");
        client.command(&format!("RCPT TO:<{said}>")).await.expect("answered");
        client.command(&format!("RCPT TO:<\"{said}\"@x.test>")).await.expect("answered");
        client.command(&format!("VRFY {said}")).await.expect("answered");
    }
}

/// Mails that are taken: with look-alikes in sender, recipient, Message-ID and other headers, and one under our own
/// Message-ID for somebody else.
async fn mails(scene: &Scene, id: Uuid, queue_id: &str) {
    let ours = Scene::message_id(id, 1);
    let port = scene.postfix.port();
    let local = format!("\"{queue_id}: to=<a@x.test>, dsn=5.1.1, status=bounced (no)\"@x.test");
    let headers = format!(
        "From: x@x.test\r\nSubject: postfix/smtp[1]: {queue_id}: to=<a@x.test>, status=bounced (no)\r\n\
         Message-ID: <x>, {queue_id}: to=<a@x.test>, status=bounced (no)\r\nX-Other: {ours}\r\n\r\nhello\r\n"
    );
    let one = submit(port, &local, &[&local], &headers).await.expect("taken");
    let two = format!("Message-ID: <z@x.test> {ours}\r\nFrom: x@x.test\r\n\r\nhello\r\n");
    let two = submit(port, "x@x.test", &["a@x.test.z.test"], &two).await.expect("taken");
    let three = format!("Message-ID: {ours}\r\nFrom: x@x.test\r\n\r\nhello\r\n");
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("lost@z.test").reply("550 5.1.1 no such user"));
    let three = submit(port, "x@x.test", &["z@z.test", "lost@z.test"], &three).await.expect("taken");
    for taken in [one, two, three] {
        scene.postfix.logged(&["qmgr", &taken, "removed"], PATIENCE).await.expect("all are done with");
    }
    let row = scene.row(id).await;
    assert_eq!(relay_status(&row, "1|a@x.test"), "deferred", "{row:?}\n{}", scene.logs());
}
