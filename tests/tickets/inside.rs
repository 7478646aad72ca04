//! Attachments inside mails and tickets: byte for byte, or linked, or named; never dropped without a word.

#![expect(clippy::disallowed_methods, reason = "retention is a matter of real time")]

use std::time::Duration;

use devkit::forms::SubmissionSeed;
use devkit::google::{Mishap, Spoilt};
use devkit::help_desk::{Act, Call, Rule, Stage};
use devkit::smtp;
use jiff::{SignedDuration, Timestamp};
use mail_parser::{MessageParser, MimeHeaders as _};
use uuid::Uuid;

use crate::scene::Scene;

const BUCKET: &str = "maple-uploads";
/// Form `t`, whose ticket and mail have files inside.
const INLINE: &str = "[mail]\ninline_max_total = \"14MiB\"\n[mail.forms.t]\nattachments = \"inline\"\n\
                      [happyfox.forms.t]\nattachments = \"inline\"\n";

/// A file of a submission: name, type as recorded, bytes.
struct File {
    name: &'static str,
    content_type: &'static str,
    bytes: Vec<u8>,
}

/// A file of so many bytes that begins as files of its type do.
fn file(name: &'static str, content_type: &'static str, begin: &[u8], length: usize) -> File {
    let noise = (0_u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8);
    let mut bytes = begin.to_vec();
    if content_type.starts_with("text/") {
        bytes.extend(noise.map(|byte| b'a' + byte % 26).take(length - begin.len()));
    } else {
        bytes.extend(noise.take(length - begin.len()));
    }
    File { name, content_type, bytes }
}

fn pdf(name: &'static str) -> File {
    file(name, "application/pdf", b"%PDF-1.7\n", 2_000)
}

fn object(id: Uuid, number: usize, name: &str) -> String {
    format!("submissions/{id}/{}-{name}", number + 1)
}

/// A mail as its reader has it: its text, and its files by name.
struct Read {
    text: String,
    files: Vec<(String, Vec<u8>)>,
}

impl Read {
    fn links(&self) -> usize {
        self.text.lines().filter(|line| line.trim().starts_with("http")).count()
    }

    fn names(&self) -> Vec<&str> {
        self.files.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The one mail of a submission, read by a parser that knows nothing of us.
fn mail(scene: &Scene, id: Uuid) -> Read {
    let mails = scene.stage.relay.mails();
    let of = mails.iter().filter(|mail| mail.submission_id == Some(id.to_string())).collect::<Vec<_>>();
    let [mail] = of.as_slice() else { panic!("{} mails\n{}", of.len(), scene.log()) };
    let message = MessageParser::default().parse(&mail.raw).expect("a message");
    let files = message.attachments().map(|part| {
        let name = part.attachment_name().unwrap_or_default().to_owned();
        (name, part.contents().to_vec())
    });
    let files = files.collect();
    Read { text: message.body_text(0).expect("text").into_owned(), files }
}

fn seed(id: Uuid, files: &[File]) -> SubmissionSeed {
    let seed = SubmissionSeed::of("t").id(id).field("email", "ada@example.org");
    files.iter().fold(seed, |seed, file| seed.file(file.name, file.content_type, &file.bytes))
}

fn put(scene: &Scene, id: Uuid, files: &[File]) {
    for (number, file) in files.iter().enumerate() {
        let object = object(id, number, file.name);
        scene.stage.google.put_object(BUCKET, &object, file.content_type, file.bytes.clone());
    }
}

/// Submits files that are in the store, and waits for the end.
async fn routed(scene: &Scene, files: &[File]) -> Uuid {
    let id = Uuid::new_v4();
    put(scene, id, files);
    scene.submit_seed(seed(id, files)).await;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}\n{}", scene.log());
    id
}

#[tokio::test]
async fn nine_mebibytes_arrive_byte_for_byte() {
    let scene = Scene::start(INLINE).await;
    let third = 3 << 20;
    let files = [
        file("plan.pdf", "application/pdf", b"%PDF-1.7\n", third),
        file("übersicht \"1\".png", "image/png", b"\x89PNG\r\n\x1a\n", third),
        file("list.csv", "text/csv", b"..a;b\r\n", third),
    ];
    let id = routed(&scene, &files).await;
    let read = mail(&scene, id);
    assert_eq!(read.names(), ["plan.pdf", "übersicht '1'.png", "list.csv"]);
    for ((name, bytes), sent) in read.files.iter().zip(&files) {
        assert!(*bytes == sent.bytes, "{name}: byte for byte");
    }
    assert_eq!((read.links(), read.text.matches("It is attached.").count()), (0, 3), "{}", read.text);
    let ticket = scene.desk.tagged(&Scene::tag(id)).pop().expect("a ticket");
    for (found, sent) in ticket.files.iter().zip(&files) {
        assert!(found.bytes == sent.bytes, "{}: byte for byte", found.name);
    }
    assert_eq!(ticket.files.len(), 3);
    scene.stop().await;
}

#[tokio::test]
async fn what_may_not_travel_is_linked() {
    let scene = Scene::start(INLINE).await;
    let files = [
        pdf("good.pdf"),
        file("run.exe", "application/x-msdownload", b"MZ\x90\0", 2_000),
        file("bytes.pdf", "application/pdf", b"MZ\x90\0", 2_000),
        file("large.pdf", "application/pdf", b"%PDF-1.7\n", 13 << 20),
        pdf("encoded.pdf"),
        pdf("last.pdf"),
    ];
    let id = Uuid::new_v4();
    put(&scene, id, &files);
    let stored = object(id, 4, "encoded.pdf");
    scene.stage.google.put_encoded(BUCKET, &stored, "application/pdf", "gzip", &files[4].bytes);
    scene.submit_seed(seed(id, &files)).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    let read = mail(&scene, id);
    assert_eq!(read.names(), ["good.pdf", "last.pdf"], "{}", scene.log());
    assert_eq!(read.links(), 4, "{}", read.text);
    for reason in ["type", "bytes", "size", "encoded"] {
        assert!(scene.log().contains(&format!("\"reason\":\"{reason}\"")), "{reason}: {}", scene.log());
    }
    assert!(!scene.log().contains("good.pdf"), "no file name in the journal");
    scene.stop().await;
}

/// What is not what was scanned reaches nobody, neither as a file nor by a link.
#[tokio::test]
async fn what_is_gone_or_was_replaced_is_named() {
    let scene = Scene::start(INLINE).await;
    let files = [pdf("gone.pdf"), pdf("longer.pdf"), pdf("other.pdf"), pdf("good.pdf")];
    let id = Uuid::new_v4();
    put(&scene, id, &files);
    let google = &scene.stage.google;
    assert!(google.delete_object(BUCKET, &object(id, 0, "gone.pdf")));
    let mut other = files[1].bytes.clone();
    other.push(b'x');
    google.put_object(BUCKET, &object(id, 1, "longer.pdf"), "application/pdf", other);
    let mut other = files[2].bytes.clone();
    other[1_000] ^= 1;
    google.put_object(BUCKET, &object(id, 2, "other.pdf"), "application/pdf", other);
    scene.submit_seed(seed(id, &files)).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    let read = mail(&scene, id);
    assert_eq!((read.names(), read.links()), (vec!["good.pdf"], 0), "{}", read.text);
    assert_eq!(read.text.matches("It can no longer be linked").count(), 3, "{}", read.text);
    assert!(read.text.contains("gone.pdf"), "{}", read.text);
    let log = scene.log();
    let told = |reason: &str| {
        log.lines().filter(|l| l.contains("file_missing") && l.contains(&format!("\"{reason}\""))).count()
    };
    // Of the ticket, and of the mail.
    assert_eq!((told("gone"), told("changed")), (2, 4), "{log}");
    scene.stop().await;
}

#[tokio::test]
async fn what_comes_spoilt_or_not_at_all_is_read_once_more_or_linked() {
    let scene = Scene::start(INLINE).await;
    scene.form(devkit::forms::Form::new("t").mail_to("a@x.test")).await;
    let google = &scene.stage.google;
    google.spoil_next(1, Spoilt::Flipped);
    let id = routed(&scene, &[pdf("a.pdf")]).await;
    assert_eq!(mail(&scene, id).names(), ["a.pdf"], "once more");
    google.spoil_next(2, Spoilt::Flipped);
    let id = routed(&scene, &[pdf("a.pdf")]).await;
    assert_eq!((mail(&scene, id).files.len(), mail(&scene, id).links()), (0, 1), "{}", scene.log());
    google.spoil_next(1, Spoilt::Cut);
    let id = routed(&scene, &[pdf("a.pdf"), pdf("b.pdf")]).await;
    assert_eq!((mail(&scene, id).files.len(), mail(&scene, id).links()), (0, 2), "{}", scene.log());
    for mishap in [Mishap::Status(503), Mishap::Status(403), Mishap::Hang] {
        google.store_script().always(mishap);
        let id = routed(&scene, &[pdf("a.pdf")]).await;
        assert_eq!((mail(&scene, id).files.len(), mail(&scene, id).links()), (0, 1), "{mishap:?}");
        google.store_script().clear();
    }
    scene.stop().await;
}

#[tokio::test]
async fn what_turns_infected_while_it_is_read_is_not_sent() {
    let scene = Scene::start(INLINE).await;
    let (id, files) = (Uuid::new_v4(), [pdf("a.pdf")]);
    put(&scene, id, &files);
    let reads = scene.stage.google.gets();
    scene.stage.google.store_script().next(2, Mishap::Delay(Duration::from_secs(3)));
    scene.submit_seed(seed(id, &files)).await;
    scene.until("a read", async || scene.stage.google.gets() > reads).await;
    let sql = "UPDATE attachments SET clamav_status = 'infected' WHERE submission_id = $1";
    assert_eq!(scene.eyes.execute(sql, &[&id]).await.expect("written"), 1);
    let row = scene.ended(id).await;
    assert_eq!(row.status, "failed", "{row:?}");
    assert!(scene.mails(id) == 0 && scene.desk.tagged(&Scene::tag(id)).is_empty());
    scene.stop().await;
}

#[tokio::test]
async fn what_is_refused_as_too_large_goes_with_links_in_the_same_attempt() {
    let scene = Scene::start(INLINE).await;
    for (stage, reply) in [
        (smtp::Stage::Mail, "552 5.3.4 message size exceeds the limit"),
        (smtp::Stage::Dot, "552 5.2.3 too large"),
        (smtp::Stage::Body, "554 5.3.4 that is enough"),
    ] {
        scene.stage.relay.rule(smtp::Rule::at(stage).reply(reply).times(1));
        scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Status(413)));
        let id = routed(&scene, &[file("a.pdf", "application/pdf", b"%PDF-1.7\n", 1 << 20)]).await;
        let read = mail(&scene, id);
        assert_eq!((read.files.len(), read.links()), (0, 1), "{reply}: {}", scene.log());
        let ticket = scene.desk.tagged(&Scene::tag(id)).pop().expect("a ticket");
        assert!(ticket.files.is_empty());
        assert!(ticket.text.as_ref().is_some_and(|text| text.contains("http")), "{reply}");
        scene.stage.relay.clear_rules();
    }
    // What was replaced in the store gets no link on the second way either.
    scene.stage.relay.rule(smtp::Rule::at(smtp::Stage::Mail).reply("552 5.3.4 too large").times(1));
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Status(413)));
    let (id, files) = (Uuid::new_v4(), [pdf("good.pdf"), pdf("other.pdf")]);
    put(&scene, id, &files);
    let mut other = files[1].bytes.clone();
    other[1_000] ^= 1;
    scene.stage.google.put_object(BUCKET, &object(id, 1, "other.pdf"), "application/pdf", other);
    scene.submit_seed(seed(id, &files)).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    let read = mail(&scene, id);
    assert_eq!((read.files.len(), read.links()), (0, 1), "{}", read.text);
    let ticket = scene.desk.tagged(&Scene::tag(id)).pop().expect("a ticket");
    let linked = ticket.text.as_ref().map(|text| text.matches("X-Goog-Signature").count());
    assert_eq!(linked, Some(1), "{:?}", ticket.text);
    scene.stage.relay.clear_rules();
    // A mailbox that is full is not a message that is too large: nobody gets it with links either.
    scene.stage.relay.rule(smtp::Rule::at(smtp::Stage::Rcpt).reply("552 5.2.2 mailbox full"));
    let (id, files) = (Uuid::new_v4(), [pdf("a.pdf")]);
    put(&scene, id, &files);
    scene.submit_seed(seed(id, &files)).await;
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("failed", 1), "{row:?}");
    scene.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_the_store() {
    let mut scene = Scene::start(INLINE).await;
    let (id, files) = (Uuid::new_v4(), [pdf("a.pdf")]);
    put(&scene, id, &files);
    let reads = scene.stage.google.gets();
    scene.stage.google.store_script().always(Mishap::Hang);
    scene.submit_seed(seed(id, &files)).await;
    scene.until("a read", async || scene.stage.google.gets() > reads).await;
    let log = scene.end().await;
    assert!(!log.contains("not_inside"), "it did not wait until the store's time was up: {log}");
    let row = scene.row(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("received", 0), "{row:?}");
    scene.stage.google.store_script().clear();
    scene.one_more().await;
    assert_eq!(scene.ended(id).await.status, "routed");
    assert_eq!(mail(&scene, id).names(), ["a.pdf"]);
    scene.stop().await;
}

#[tokio::test]
async fn after_the_end_of_retention_no_file_goes_out() {
    let scene = Scene::start(INLINE).await;
    let (id, files) = (Uuid::new_v4(), [pdf("a.pdf")]);
    put(&scene, id, &files);
    let past = Timestamp::now() - SignedDuration::from_secs(5);
    scene.submit_seed(seed(id, &files).retention_expires_at(past)).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    let read = mail(&scene, id);
    assert_eq!((read.files.len(), read.links()), (0, 0), "{}", read.text);
    assert!(read.text.contains("retention"), "{}", read.text);
    scene.stop().await;
}
