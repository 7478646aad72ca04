//! The happy path, and what each outcome of the protocol's table leaves behind.

use devkit::forms::{Form, SubmissionSeed};

use crate::harness::{audited, await_status, binary, stage};

#[tokio::test]
async fn a_submission_is_routed_mailed_once_per_recipient_and_audited() {
    let stage = stage(&[Form::new("contact").mail_to("a@example.org, b@example.org")]).await;
    let mut router = stage.router(binary(), "one", "").await.expect("a router");
    router.ready().await.expect("ready");
    let backend = stage.database.client_as("forms_app").await.expect("forms_app");
    let seeded =
        SubmissionSeed::of("contact").field("subject", "hello").insert(&backend).await.expect("a row");
    stage.publish(seeded.id, "finalized").expect("published");
    let row = await_status(&stage, seeded.id, &["routed", "failed"]).await;
    assert_eq!(row.status, "routed", "{}\n{}", row.ledger, router.log());
    let mails = stage.relay.mails();
    assert_eq!(mails.len(), 1, "one transaction for the action");
    assert_eq!(mails[0].recipients, ["a@example.org", "b@example.org"]);
    assert_eq!(audited(&stage, seeded.id).await, ["email_sent", "email_sent", "submission_routed"]);
    assert!(router.stop().await.expect("stops").success(), "{}", router.log());
}
