//! The happy path, from the event to the exit code.

use devkit::forms::{Form, SubmissionSeed};

use crate::harness::Scene;

#[tokio::test]
async fn a_submission_is_routed_mailed_once_per_recipient_and_audited() {
    let scene = Scene::start(&[Form::new("contact").mail_to("a@example.org, b@example.org")]).await;
    let seeded = scene.submit(&SubmissionSeed::of("contact").field("subject", "hello")).await;
    let row = scene.ended(seeded.id).await;
    assert_eq!(row.status, "routed", "{row:?}\n{}", scene.router.log());
    let mails = scene.stage.relay.mails();
    assert_eq!(mails.len(), 1, "one transaction for the action");
    assert_eq!(mails[0].recipients, ["a@example.org", "b@example.org"]);
    assert_eq!(scene.audited(seeded.id).await, ["email_sent", "email_sent", "submission_routed"]);
    let stats = scene.settled().await;
    assert_eq!((stats.acked, stats.delivered), (1, 1), "one event, acked");
    scene.stop().await;
}
