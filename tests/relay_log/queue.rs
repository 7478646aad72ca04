//! The queue's protocol, as Postfix 3.7.11 was seen to speak it, as older ones did, and as nobody should.

use std::path::{Path, PathBuf};
use std::time::Duration;

use maple_router::gateway::relay_log::RelayQueue;
use maple_router::ports::QueuedMail;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

/// A real showq's answer (`\0` between everything).
const REAL: &[u8] = b"protocol\0mail_queue_list_protocol\0\0\
queue_name\0deferred\0queue_id\x0033AD0990328\0time\x001795332343\0size\x00333\0forced_expire\x000\0sender\0it@example.org\0\
recipient\0bye@example.net\0reason\0host 127.0.0.1[127.0.0.1] said: 421 4.3.2 shutting down (in reply to RCPT TO command)\0\0\
queue_name\0active\0queue_id\x002D702990324\0time\x001795332343\0size\x00311\0forced_expire\x000\0sender\0it@example.org\0\
recipient\0full@example.net\0reason\0host said: 452 4.2.2 mailbox full\0\
recipient\0grey@example.net\0reason\0host said: 450 queue_id\0\0\0";
const EMPTY: &[u8] = b"protocol\0mail_queue_list_protocol\0\0\0";

/// A queue directory whose showq gives `answer`, in pieces, then closes, or stays silent.
struct Showq {
    dir: tempfile::TempDir,
}

impl Showq {
    fn new(answer: &[u8], piece: usize, then_silent: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("public")).expect("public");
        let listener = UnixListener::bind(dir.path().join("public/showq")).expect("a socket");
        let answer = answer.to_vec();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = answer.clone();
                tokio::spawn(async move {
                    for piece in answer.chunks(piece) {
                        if stream.write_all(piece).await.is_err() {
                            break;
                        }
                    }
                    if then_silent {
                        tokio::time::sleep(Duration::from_secs(600)).await;
                    }
                });
            }
        });
        Self { dir }
    }

    fn queue(&self) -> RelayQueue {
        RelayQueue::new(self.dir.path())
    }
}

const SENDER: &str = "it@example.org";

fn mail(id: &str, queue: &str, recipients: &[&str]) -> QueuedMail {
    QueuedMail {
        id: id.to_owned(),
        queue: queue.to_owned(),
        sender: SENDER.to_owned(),
        recipients: recipients.iter().map(|to| (*to).to_owned()).collect(),
    }
}

#[tokio::test]
async fn what_is_queued_is_found_with_its_recipients() {
    for (answer, piece) in
        [(REAL, 1), (REAL, 4_096), (&REAL[b"protocol\0mail_queue_list_protocol\0\0".len()..], 7)]
    {
        let showq = Showq::new(answer, piece, false);
        let listing = showq.queue().find(&["2D702990324", "0000000000"]).await.expect("a listing");
        assert_eq!(
            listing.found,
            [mail("2D702990324", "active", &["full@example.net", "grey@example.net"])],
            "in pieces of {piece}"
        );
        assert!(listing.complete);
        let both = showq.queue().find(&["2D702990324", "33AD0990328"]).await.expect("a listing");
        assert_eq!((both.found.len(), both.complete), (2, true));
        assert_eq!(showq.queue().depth(10).await.expect("a depth"), (2, false));
        assert_eq!(showq.queue().depth(2).await.expect("a depth"), (2, true));
        assert_eq!(showq.queue().depth(1).await.expect("a depth"), (1, true));
    }
    for empty in [EMPTY, b"\0".as_slice()] {
        let showq = Showq::new(empty, 64, false);
        let listing = showq.queue().find(&["2D702990324"]).await.expect("a listing");
        assert!(listing.complete && listing.found.is_empty());
        assert_eq!(showq.queue().depth(10).await.expect("a depth"), (0, false));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_proves_nothing() {
    for end in 0..REAL.len() {
        let showq = Showq::new(&REAL[..end], 512, false);
        let listing = showq.queue().find(&["0000000000"]).await.expect("a listing");
        assert!(!listing.complete, "after {end} bytes");
    }
    let error =
        Showq::new(&REAL[..300], 512, false).queue().depth(10).await.expect_err("broke off").to_string();
    assert!(error.contains("broke off"), "{error}");
    // A very old Postfix answers in words.
    let words = Showq::new(b"Mail queue is empty\n", 512, false);
    assert!(!words.queue().find(&["0000000000"]).await.expect("a listing").complete);
    assert!(words.queue().depth(10).await.is_err());
}

#[tokio::test]
async fn counting_ends_at_the_limit_whatever_follows() {
    let mut endless = b"protocol\0mail_queue_list_protocol\0\0".to_vec();
    for n in 0..5_000 {
        endless.extend_from_slice(format!("queue_name\0active\0queue_id\0A{n:07}\0\0").as_bytes());
    }
    // The answer never ends; the counting does.
    let showq = Showq::new(&endless, 4_096, true);
    assert_eq!(showq.queue().depth(4_000).await.expect("a depth"), (4_000, true));
    let found = showq.queue().find(&["A0000017"]).await.expect("a listing");
    assert_eq!((found.found.len(), found.complete), (1, true), "nothing else was asked for");
    let patient = showq.queue().patient_for(Duration::from_millis(300));
    let error = patient.find(&["0000000000"]).await.expect_err("silence").to_string();
    assert!(error.contains("no answer within 300ms"), "{error}");
}

#[tokio::test]
async fn values_without_end_are_cut_and_names_are_not_believed() {
    let mut hostile = b"queue_name\0active\0queue_id\0A0000001\0recipient\0".to_vec();
    hostile.extend(std::iter::repeat_n(b'x', 1 << 20));
    hostile.extend_from_slice(b"\0reason\0queue_id\0unknown\0\xff\xfe\0recipient\0\xff@example.net\0\0\0");
    let listing = Showq::new(&hostile, 4_096, false).queue().find(&["A0000001"]).await.expect("a listing");
    assert!(listing.complete);
    let [mail] = listing.found.as_slice() else { panic!("{listing:?}") };
    assert_eq!((mail.id.as_str(), mail.recipients.len()), ("A0000001", 2));
    assert!(mail.recipients[0].len() <= 1_024);
    assert_eq!(mail.recipients[1], "\u{fffd}@example.net");
}

#[tokio::test]
async fn a_queue_that_cannot_be_asked_says_what_to_do() {
    let nowhere = RelayQueue::new(Path::new("/nonexistent/spool"));
    let error = nowhere.depth(1).await.expect_err("no socket").to_string();
    assert!(error.contains("queue_directory"), "{error}");

    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("public")).expect("public");
    let socket: PathBuf = dir.path().join("public/showq");
    drop(UnixListener::bind(&socket).expect("a socket"));
    let error = RelayQueue::new(dir.path()).find(&["A0000001"]).await.expect_err("nobody").to_string();
    assert!(error.contains("is Postfix running"), "{error}");
}
