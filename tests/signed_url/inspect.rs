//! The lines of `check` about signing.

use std::time::Duration;

use devkit::google::{GoogleFake, Mishap};
use maple_router::gateway::signed_url::{UrlSigner, inspect};
use maple_router::ports::{CheckLevel, CheckLine};

use crate::harness::{BUCKET, DAY, by_key_file, by_metadata, in_time};

async fn levels(
    signer: &UrlSigner,
    probe: Option<&str>,
    ttl: Duration,
) -> (CheckLevel, CheckLevel, Vec<CheckLine>) {
    let lines = in_time(inspect(signer, probe, ttl)).await;
    assert_eq!(lines.iter().map(|line| line.name).collect::<Vec<_>>(), ["signing", "link"]);
    for line in &lines {
        assert_eq!(line.remedy.is_some(), line.level != CheckLevel::Ok, "{line:?}");
        let text = format!("{line:?}");
        assert!(!text.contains("X-Goog") && !text.contains("ya29"), "{text}");
    }
    (lines[0].level, lines[1].level, lines)
}

#[tokio::test]
async fn only_the_line_whose_part_is_wrong_fails() {
    use CheckLevel::{Fail, Ok, Warn};
    let fake = GoogleFake::start().await.unwrap();
    fake.put_object(BUCKET, "check/probe", "text/plain", "probe");
    let probe = format!("{BUCKET}/check/probe");
    let (by_file, _dir) = by_key_file(&fake);
    let by_iam = by_metadata(&fake);
    let hour = Duration::from_secs(3600);

    let healthy = levels(&by_file, Some(&probe), 7 * DAY).await;
    assert_eq!((healthy.0, healthy.1), (Ok, Ok), "{:?}", healthy.2);
    let healthy = levels(&by_iam, Some(&probe), 12 * hour).await;
    assert_eq!((healthy.0, healthy.1), (Ok, Ok), "{:?}", healthy.2);
    let long = levels(&by_iam, Some(&probe), 7 * DAY).await;
    assert_eq!((long.0, long.1), (Warn, Ok), "{:?}", long.2);
    assert!(long.2[0].detail.contains("12 h"), "{:?}", long.2);

    let unprobed = levels(&by_iam, None, hour).await;
    assert_eq!((unprobed.0, unprobed.1), (Ok, Warn), "{:?}", unprobed.2);
    for wrong in ["no-slash", "bucket/", "/object", "Bad Bucket/object", "maple-uploads/a/../b"] {
        let wrong = levels(&by_iam, Some(wrong), hour).await;
        assert_eq!((wrong.0, wrong.1), (Ok, Fail), "{:?}", wrong.2);
    }

    fake.set_may_read(false);
    let blind = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((blind.0, blind.1), (Ok, Fail), "{:?}", blind.2);
    assert!(blind.2[1].remedy.as_deref().unwrap().contains("storage.objects.get"), "{:?}", blind.2);
    fake.set_may_read(true);

    let gone = levels(&by_iam, Some("maple-uploads/gone"), hour).await;
    assert_eq!((gone.0, gone.1), (Ok, Fail), "{:?}", gone.2);
    assert!(gone.2[1].detail.contains("maple-uploads/gone"), "{:?}", gone.2);

    fake.set_clock_offset(2 * 3600);
    let late = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((late.0, late.1), (Ok, Fail), "{:?}", late.2);
    assert!(late.2[1].remedy.as_deref().unwrap().contains("clock"), "{:?}", late.2);
    fake.set_clock_offset(-2 * 3600);
    let early = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((early.0, early.1), (Ok, Fail), "{:?}", early.2);
    assert!(early.2[1].detail.contains("SignatureDoesNotMatch): this host's clock is "), "{:?}", early.2);
    assert!(early.2[1].detail.contains(" ahead of the object store's"), "{:?}", early.2);
    assert!(early.2[1].remedy.as_deref().unwrap().contains("clock"), "{:?}", early.2);
    fake.set_clock_offset(0);

    fake.iam_script().always(Mishap::Status(403));
    let refused = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((refused.0, refused.1), (Fail, Warn), "{:?}", refused.2);
    assert!(
        refused.2[0].remedy.as_deref().unwrap().contains("serviceAccountTokenCreator"),
        "{:?}",
        refused.2
    );
    fake.iam_script().clear();

    fake.store_script().always(Mishap::Hang);
    let stuck = levels(&by_iam, Some(&probe), hour).await;
    assert_eq!((stuck.0, stuck.1), (Ok, Fail), "{:?}", stuck.2);
}
