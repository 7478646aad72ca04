//! The dead man's switch: a ping after a canary that came back, none when something is wrong, and never with its
//! URL in a log.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use devkit::forms::Form;
use devkit::heartbeat::HeartbeatService;
use devkit::waiting;

use crate::{PATIENCE, STEP, routing, until};

/// Waits until more heartbeats were taken than before.
async fn beats(service: &HeartbeatService, more_than: u64) -> u64 {
    let look = async || Some(service.beats()).filter(|beats| *beats > more_than);
    waiting::find(PATIENCE, STEP, look).await.unwrap_or_else(|| panic!("no heartbeat within {PATIENCE:?}"))
}

fn said(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("\"event\":\"heartbeat\"")).collect()
}

#[tokio::test]
async fn it_is_sent_while_canaries_come_back_and_not_when_something_is_wrong() {
    let service = HeartbeatService::start().await.expect("a service");
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), service.url() + "\n").expect("written");
    std::fs::set_permissions(secret.path(), std::fs::Permissions::from_mode(0o600)).expect("chmod");
    let extra = format!("[canary]\ninterval = \"1s\"\nheartbeat_url_file = \"{}\"", secret.path().display());
    let (stage, mut router) = routing(&[Form::new("f").mail_to("a@x.test")], &extra).await;

    let first = beats(&service, 0).await;
    beats(&service, first).await;
    until(&router, "heartbeats_total{result=\"sent\"}", |sent| sent >= 2.0).await;
    assert_eq!(said(&router.log()), Vec::<&str>::new(), "nothing to say while all is well");

    // The heartbeat is not taken: said once, counted each time.
    service.answer(404);
    until(&router, "heartbeats_total{result=\"failed\"}", |failed| failed >= 3.0).await;
    let log = router.log();
    assert_eq!(said(&log).len(), 1, "{log}");
    assert!(said(&log)[0].contains("127.0.0.1 answered 404"), "{log}");
    service.answer(200);
    let before = service.beats();
    beats(&service, before).await;

    // A claim that nobody ends: the path is whole, and yet all is not well.
    let eyes = stage.database.superuser().await.expect("superuser");
    let stuck = devkit::forms::SubmissionSeed::of("f").status("processing").ledger(serde_json::json!({
        "v": 9, "claim": {"token": "t", "worker": "newer/1", "at": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T00:20:00Z"},
    }));
    let stuck = stuck.insert(&eyes).await.expect("a row").id;
    let aged = "UPDATE submissions SET updated_at = now() - interval '1 hour' WHERE id = $1";
    eyes.execute(aged, &[&stuck]).await.expect("aged");
    until(&router, "heartbeats_total{result=\"withheld\"}", |withheld| withheld >= 2.0).await;
    let silent = service.beats();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(service.beats(), silent, "{}", router.log());
    eyes.execute("UPDATE submissions SET status = 'routed' WHERE id = $1", &[&stuck]).await.expect("over");
    beats(&service, silent).await;

    let log = router.log();
    assert!(!log.contains(service.secret()), "the URL is a secret:\n{log}");
    router.stop().await.expect("stopped");
    let last = service.beats();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(service.beats(), last, "silence is what calls people");
}
