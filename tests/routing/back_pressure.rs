//! The relay's own queue grows: mails are sent slowly, people are notified, and it ends when the queue is short again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::StageOptions;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::harness::Scene;

/// Answers as showq does, with so many messages.
fn showq(directory: &Path, depth: Arc<AtomicUsize>) -> JoinHandle<()> {
    std::fs::create_dir_all(directory.join("public")).expect("a directory");
    let listener = UnixListener::bind(directory.join("public/showq")).expect("a socket");
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let mut answer = Vec::new();
            for n in 0..depth.load(Ordering::SeqCst) {
                answer.extend(format!("queue_name\0deferred\0queue_id\0A{n:07}\0\0").into_bytes());
            }
            answer.push(0);
            // A client that has counted enough hangs up.
            drop(caller.write_all(&answer).await);
        }
    })
}

impl Scene {
    async fn metric(&self, name: &str) -> f64 {
        let (_, scrape) = self.router.get("/metrics").await.expect("metrics");
        let name = format!("maple_router_{name} ");
        let line = scrape.lines().find_map(|line| line.strip_prefix(&name)).expect("the metric");
        line.parse().expect("a number")
    }

    fn posted(&self, part: &str) -> bool {
        let messages = self.stage.slack.messages();
        messages.iter().any(|message| message.visible_text().contains(part))
    }
}

/// A log that cannot be read stops nothing, and people are notified of its start and its end.
#[tokio::test]
async fn a_log_that_cannot_be_read_is_reported_and_so_is_its_end() {
    let place = tempfile::tempdir().expect("a directory");
    let log = place.path().join("mail.log");
    std::fs::create_dir(&log).expect("no file");
    let extra = format!(
        "[relay_log]\nenabled = true\nfile = \"{}\"\nqueue_directory = \"{}\"\n[slack]\ngroup_wait = \"1s\"\n",
        log.display(),
        place.path().display(),
    );
    let scene = Scene::with(StageOptions::default(), &[Form::new("f").mail_to("a@x.test")], &extra).await;
    scene.until("message", async || scene.posted("section relay_log")).await;
    assert!(scene.posted("the relay's log cannot be read"), "{:?}", scene.stage.slack.messages());
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    std::fs::remove_dir(&log).expect("gone");
    std::fs::write(&log, "").expect("a log");
    scene.until("recovery", async || scene.posted("over, after")).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_long_queue_slows_mails_down_and_never_stops_them() {
    let place = tempfile::tempdir().expect("a directory");
    let depth = Arc::new(AtomicUsize::new(25));
    let postfix = showq(place.path(), Arc::clone(&depth));
    let log = place.path().join("mail.log");
    std::fs::write(&log, "").expect("a log");
    let extra = format!(
        "[relay_log]\nenabled = true\nfile = \"{}\"\nqueue_directory = \"{}\"\nqueue_limit = 10\n[slack]\ngroup_wait = \"1s\"\n",
        log.display(),
        place.path().display(),
    );
    let scene = Scene::with(StageOptions::default(), &[Form::new("f").mail_to("a@x.test")], &extra).await;
    scene.until("slowed", async || scene.metric("relay_slowed").await > 0.5).await;
    assert_eq!(scene.metric("relay_queue_messages").await, 20.0, "counted up to twice the limit");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed", "slowly is not never");
    scene.until("message", async || scene.posted("the relay's queue holds 20 messages or more")).await;
    assert!(scene.posted("section relay_queue"), "{:?}", scene.stage.slack.messages());
    depth.store(3, Ordering::SeqCst);
    scene.until("let go", async || scene.metric("relay_slowed").await < 0.5).await;
    scene.until("recovery", async || scene.posted("over, after")).await;
    // A queue that cannot be asked slows nothing down, and that is said.
    depth.store(25, Ordering::SeqCst);
    scene.until("slowed again", async || scene.metric("relay_slowed").await > 0.5).await;
    postfix.abort();
    scene.until("not known, so let go", async || scene.metric("relay_slowed").await < 0.5).await;
    let said = std::fs::read_to_string(scene.router.log_file()).expect("a log");
    assert_eq!(said.matches("until that is mended its length slows nothing down").count(), 1, "said once");
    assert!(said.contains("relay_slowed") && said.contains("relay_flowing"), "in the journal as well");
    scene.stop().await;
}
