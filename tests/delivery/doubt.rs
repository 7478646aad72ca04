//! Doubt is resolved by the relay's own log and queue: what it has is not sent again, what it provably has not is sent without a
//! word about doubt to anybody, and what neither settles follows the policy.

use devkit::forms::{Form, SubmissionSeed};
use devkit::postfix::{Postfix, PostfixOptions};
use devkit::smtp::{Client, RelayWire, WireTrap, submit};
use maple_router::routing::delivery::sender::ReturnAddress;
use maple_router::routing::submission::message_id::Origin;
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene, relay_status};

const KEYS: [&str; 2] = ["1|a@x.test", "1|b@x.test"];

/// A scene whose router speaks to Postfix over a wire that can stand still.
async fn wired() -> (Scene, RelayWire) {
    wired_with("").await
}

async fn wired_with(extra: &str) -> (Scene, RelayWire) {
    let form = Form::new("f").mail_to("a@x.test, b@x.test");
    let mut scene = Scene::resting(PostfixOptions::default(), &[form]).await;
    let wire = RelayWire::start(scene.postfix.port()).await.expect("a wire");
    scene.overlay(&format!("[smtp]\nport = {}\n{extra}", wire.port()));
    scene.up().await;
    scene.follows().await;
    (scene, wire)
}

/// A mail whose Message-ID is logged before its dot is read: smtpd keeps less than this for itself.
async fn submit_large(scene: &Scene) -> Uuid {
    let seed = SubmissionSeed::of("f").field("text", &"x ".repeat(4_000));
    seed.insert(&scene.backend).await.expect("a row").id
}

/// SIGKILL while the wire has stopped a dialogue at this point; returns with the trap still set.
async fn killed_at(scene: &mut Scene, wire: &RelayWire, place: WireTrap) -> (Uuid, devkit::trap::Trapped) {
    let trapped = wire.trap(place, 1);
    let id = submit_large(scene).await;
    trapped.hit(PATIENCE).await.expect("it comes by");
    scene.kill().await;
    (id, trapped)
}

/// Call only once the relay's log has said that it delivered: until then it may not have passed the mail on.
fn once(scene: &Scene, id: Uuid) {
    for recipient in ["a@x.test", "b@x.test"] {
        assert_eq!(scene.copies(id, recipient), 1, "{recipient}\n{}", scene.logs());
    }
}

/// The queue id under which the relay took (or almost took) the mail.
async fn queue_id(postfix: &Postfix, id: Uuid) -> String {
    let message_id = format!("message-id={}", Scene::message_id(id, 1));
    let line = postfix.logged(&["/cleanup[", &message_id], PATIENCE).await.expect("cleanup");
    let id = line.split_once("]: ").and_then(|(_, rest)| rest.split_once(':')).map(|(id, _)| id.to_owned());
    id.expect("a queue id")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_relay_has_is_found_and_not_sent_again() {
    let (mut scene, wire) = wired().await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotAnswered).await;
    trapped.cut();
    let queued = queue_id(&scene.postfix, id).await;
    scene.up().await;
    let row = scene.routed(id).await;
    for key in KEYS {
        assert_eq!(row.entry(key)["state"], "accepted", "{row:?}");
        assert_eq!(row.entry(key)["queue_id"], queued.as_str(), "{row:?}");
    }
    scene.known(id, &KEYS, "delivered").await;
    once(&scene, id);
    let resolutions = scene.resolutions(id);
    assert!(resolutions.iter().all(|how| how == "found"), "{resolutions:?}");
    let sent = scene.audit(id).await.into_iter().filter(|line| line.action == "email_sent");
    assert_eq!(sent.count(), 2, "each fact stands in the trail");
    scene.down().await;
}

/// The upstream is down: nothing was delivered, and the mail is in the queue. That is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_relay_still_has_in_its_queue_is_found() {
    let (mut scene, wire) = wired().await;
    scene.stage.relay.stop().await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotAnswered).await;
    trapped.cut();
    scene.up().await;
    let row = scene.routed(id).await;
    assert!(KEYS.iter().all(|key| relay_status(&row, key) != "delivered"), "{row:?}");
    scene.stage.relay.restart().await.expect("it is back");
    scene.known(id, &KEYS, "delivered").await;
    once(&scene, id);
    scene.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_relay_provably_has_not_is_sent() {
    let (mut scene, wire) = wired().await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotSent).await;
    queue_id(&scene.postfix, id).await;
    trapped.cut();
    scene.postfix.logged(&["lost connection after DATA"], PATIENCE).await.expect("the session ends");
    scene.up().await;
    let row = scene.routed(id).await;
    assert_eq!(scene.resolutions(id), ["disproved", "disproved"], "{row:?}\n{}", scene.logs());
    scene.counted("maple_router_in_doubt_total{resolution=\"disproved\"}", 2.0).await;
    scene.known(id, &KEYS, "delivered").await;
    once(&scene, id);
    scene.down().await;
}

/// The session that brought the mail has not ended: it may still be committed, and here it is. Under `resend` it comes twice,
/// and that is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_not_ended_proves_nothing() {
    let (mut scene, wire) = wired().await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotSent).await;
    let first = queue_id(&scene.postfix, id).await;
    scene.up().await;
    scene.routed(id).await;
    assert_eq!(scene.resolutions(id), ["neither_resent", "neither_resent"], "{}", scene.logs());
    scene.counted("maple_router_in_doubt_total{resolution=\"neither_resent\"}", 2.0).await;
    trapped.release();
    scene.postfix.logged(&[&first, "removed"], PATIENCE).await.expect("the first one goes through as well");
    let row = scene.known(id, &KEYS, "delivered").await;
    assert_eq!((scene.copies(id, "a@x.test"), scene.copies(id, "b@x.test")), (2, 2), "{row:?}");
    scene.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_hold_what_nothing_proves_is_put_on_hold() {
    let (mut scene, wire) = wired_with("[routing]\nin_doubt = \"hold\"\n").await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotSent).await;
    scene.up().await;
    let row = scene.await_row(id, "end", |row| row.status == "failed").await;
    assert_eq!(row.ledger["finished"]["reason"], "in_doubt", "{row:?}");
    assert_eq!(scene.resolutions(id), ["neither_held", "neither_held"]);
    drop(trapped);
    scene.postfix.logged(&["removed"], PATIENCE).await.expect("it was committed in the end");
    once(&scene, id);
    scene.down().await;
}

/// A stranger's mail under our Message-ID, to others, is no proof that ours was accepted for our recipients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_mail_under_our_message_id_is_no_proof_for_our_recipients() {
    let (mut scene, wire) = wired().await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotSent).await;
    trapped.cut();
    let ours = Scene::message_id(id, 1);
    let forged = format!("From: x@x.test\r\nMessage-ID: {ours}\r\n\r\nnot ours\r\n");
    let theirs = submit(scene.postfix.port(), "x@x.test", &["z@x.test"], &forged).await.expect("taken");
    scene.postfix.logged(&[&theirs, "to=<z@x.test>", "status=sent"], PATIENCE).await.expect("delivered");
    scene.postfix.logged(&["lost connection after DATA"], PATIENCE).await.expect("the session ends");
    scene.up().await;
    let row = scene.routed(id).await;
    assert_eq!(scene.resolutions(id), ["disproved", "disproved"], "{row:?}\n{}", scene.logs());
    for key in KEYS {
        assert_ne!(row.entry(key)["queue_id"], theirs.as_str(), "{row:?}");
    }
    scene.known(id, &KEYS, "delivered").await;
    once(&scene, id);
    scene.down().await;
}

/// A stranger who knows the Message-ID of a mail that never got there, and even its envelope sender, as every recipient of a
/// former try does, hands in a mail for the same recipients, and the relay delivers it: from elsewhere with the token, on
/// this host without it, and by `sendmail`. None of that is an acceptance of ours: it would never be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_of_somebody_who_knows_our_message_id_resolves_no_doubt() {
    let form = Form::new("f").mail_to("a@x.test, b@x.test");
    let settings = vec![
        ("smtpd_authorized_xclient_hosts", "127.0.0.1".to_owned()),
        ("relay_domains", "x.test".to_owned()),
    ];
    let mut scene = Scene::resting(PostfixOptions { settings, ..PostfixOptions::default() }, &[form]).await;
    let wire = RelayWire::start(scene.postfix.port()).await.expect("a wire");
    let (address, secret) = ("maple-bounces@x.test", "5d1f0c6b0f3f4f3c9a7e2d1c0b9a8f7e");
    let (file, maildir) = (scene.stage.dir().join("bounce-secret"), scene.stage.dir().join("bounces"));
    std::fs::write(&file, secret).expect("written");
    scene.overlay(&format!(
        "[smtp]\nport = {}\n[bounces]\naddress = \"{address}\"\nmaildir = \"{}\"\nsecret_file = \"{}\"\n",
        wire.port(),
        maildir.display(),
        file.display()
    ));
    scene.up().await;
    scene.follows().await;
    let (id, trapped) = killed_at(&mut scene, &wire, WireTrap::DotSent).await;
    trapped.cut();
    let ours = ReturnAddress::new(address, secret).expect("a secret");
    let sender = ours.sender(Origin { submission: id, action_order: 1, generation: 0 });
    let message = format!("From: z@x.test\r\nMessage-ID: {}\r\n\r\nnot ours\r\n", Scene::message_id(id, 1));
    let to = ["a@x.test", "b@x.test"];
    let mut elsewhere = Client::connect(scene.postfix.port()).await.expect("connected");
    let said = elsewhere.command("XCLIENT NAME=evil.test ADDR=198.51.100.7").await.expect("answered");
    assert!(said.starts_with("220"), "{said}");
    let mut theirs = vec![elsewhere.submit(&sender, &to, &message).await.expect("taken")];
    theirs.push(submit(scene.postfix.port(), "z@x.test", &to, &message).await.expect("taken"));
    scene.postfix.sendmail(&sender, &to, &message).await.expect("taken");
    let line = scene.postfix.logged(&["pickup", &sender], PATIENCE).await.expect("picked up");
    theirs.extend(line.split("]: ").nth(1).and_then(|said| said.split(':').next()).map(str::to_owned));
    for id in &theirs {
        scene.postfix.logged(&["qmgr", id, "removed"], PATIENCE).await.expect("all are delivered");
    }
    scene.postfix.logged(&["lost connection after DATA"], PATIENCE).await.expect("the session ends");
    scene.up().await;
    let row = scene.routed(id).await;
    assert_eq!(scene.resolutions(id), ["disproved", "disproved"], "{row:?}\n{}", scene.logs());
    for key in KEYS {
        let queue_id = row.entry(key)["queue_id"].as_str().expect("our own 250");
        assert!(!theirs.iter().any(|id| id == queue_id), "{theirs:?} {row:?}");
    }
    scene.known(id, &KEYS, "delivered").await;
    once(&scene, id);
    scene.counted("maple_router_relay_log_flaws_total{flaw=\"unproved\"}", 6.0).await;
    scene.down().await;
}
