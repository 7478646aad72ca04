//! Memory beside many files inside: it is that of the lanes' buffers, whatever the files have.

#![expect(clippy::disallowed_methods, reason = "a submission of a test has any id")]

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Keep, SmtpOptions};
use uuid::Uuid;

use crate::scene::{Scene, relay};

const MEBIBYTE: u64 = 1 << 20;
/// Most that a router takes beyond what it had when it was ready. The files of the lanes together are ten times that.
const MOST: u64 = 32 * MEBIBYTE;
const LANES: &str = "[mail]\ninline_max_total = \"14MiB\"\n[mail.forms.m]\nattachments = \"inline\"\n\
                     [smtp]\nlanes = 32\n[routing]\nmax_in_flight = 64\n";

/// `INSIDE` mails (12) of 9 MiB each, through 32 lanes; `TICKETS_BINARY` names another program than the one built for tests.
#[tokio::test]
async fn files_inside_take_no_memory() {
    let mails = std::env::var("INSIDE").ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(12);
    let keeping = SmtpOptions { keep: Keep::Digests, ..relay() };
    let scene = Scene::with_relay(LANES, keeping).await;
    scene.form(Form::new("m").mail_to("a@x.test")).await;
    let before = scene.peak_memory();
    let mut bytes = b"%PDF-1.7\n".to_vec();
    bytes.resize(usize::try_from(9 * MEBIBYTE).expect("small"), b'x');
    let mut ids = Vec::new();
    for _ in 0..mails {
        let id = Uuid::new_v4();
        let object = format!("submissions/{id}/1-a.pdf");
        scene.stage.google.put_object("maple-uploads", &object, "application/pdf", bytes.clone());
        ids.push(
            scene.submit_seed(SubmissionSeed::of("m").id(id).file("a.pdf", "application/pdf", &bytes)).await,
        );
    }
    for id in ids {
        let row = scene.ended(id).await;
        // On a busy machine the answer to a dot may come too late, and the mail goes twice.
        assert!(row.status == "routed" && scene.mails(id) >= 1, "{row:?}");
    }
    let linked = scene.log().matches("\"not_inside\"").count();
    assert!(linked < mails / 2, "{linked} of {mails} files were linked: {}", scene.log());
    let peak = scene.peak_memory();
    println!("{} MiB when ready, {} MiB at most", before / MEBIBYTE, peak / MEBIBYTE);
    assert!(peak - before < MOST, "{} MiB more", (peak - before) / MEBIBYTE);
    scene.stop().await;
}
