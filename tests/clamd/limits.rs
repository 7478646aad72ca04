//! What a real clamd cannot or will not look at is never clean.

use devkit::clamd::{ClamdOptions, eicar};
use maple_router::gateway::clamd::{NoAnswer, Verdict};

use crate::archives::{encrypted, zeroes, zip};
use crate::harness::{EICAR_FOUND, client, infected, random, real, real_with, scan};

const MEBIBYTE: usize = 1 << 20;

/// Streams of 2 MiB, and no more than 4 to be looked at.
fn small() -> ClamdOptions {
    ClamdOptions {
        stream_max_length: 2 << 20,
        max_file_size: 4 << 20,
        max_scan_size: 4 << 20,
        ..ClamdOptions::default()
    }
}

fn exceeded(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Unscannable { why } if why.starts_with("Heuristics.Limits.Exceeded."))
}

#[tokio::test]
async fn a_stream_that_is_too_long_has_no_verdict() {
    let clamd = real_with(small()).await;
    let client = client(&clamd);
    assert_eq!(scan(&client, &random(2 << 20)).await, Verdict::Clean, "just not too long");
    // By a little, where clamd says so once all was sent; by much, where it closes meanwhile.
    for length in [(2 << 20) + 1, 3 << 20, 64 << 20] {
        assert_eq!(scan(&client, &random(length)).await, NoAnswer::TooLarge.into(), "{length}");
    }
    assert_eq!(client.self_test().await.as_deref(), Ok(EICAR_FOUND));
    assert_eq!(clamd.spooled().expect("readable"), 0);
}

/// `MaxFileSize` = `MaxScanSize`: what was not looked at is told.
#[tokio::test]
async fn what_is_too_long_to_be_looked_at_is_unscannable() {
    let clamd = real_with(ClamdOptions { stream_max_length: 16 << 20, ..small() }).await;
    let client = client(&clamd);
    for (mebibytes, is_found) in [(1, true), (3, true), (5, false), (9, false)] {
        let hidden = [&vec![b' '; mebibytes * MEBIBYTE][..], &eicar()].concat();
        for (what, content) in
            [("plain", hidden.clone()), ("zip", zip(&hidden)), ("zip in zip", zip(&zip(&hidden)))]
        {
            let verdict = scan(&client, &content).await;
            let expected = if is_found { verdict == infected(EICAR_FOUND) } else { exceeded(&verdict) };
            assert!(expected, "{mebibytes} MiB, {what}: {verdict:?}");
        }
    }
}

/// The reason why it must not be smaller than `MaxScanSize`: of a longer file in a zip only the beginning is looked at, and
/// `AlertExceedsMax` tells nobody. Where this test fails, clamd has been mended.
#[tokio::test]
async fn a_smaller_limit_of_files_hides_the_end_of_what_is_in_a_zip() {
    let clamd = real_with(ClamdOptions { max_file_size: 2 << 20, ..small() }).await;
    let client = client(&clamd);
    let hidden = [&vec![b' '; 3 * MEBIBYTE][..], &eicar()].concat();
    assert_eq!(scan(&client, &zip(&hidden)).await, Verdict::Clean);
}

#[tokio::test]
async fn a_bomb_is_unscannable() {
    let clamd = real_with(small()).await;
    let bomb = zeroes(40);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let client = client(&clamd);
    for bomb in [zip(&bomb), bomb] {
        let verdict = scan(&client, &bomb).await;
        assert!(exceeded(&verdict), "{verdict:?}");
    }
    let nested = (0..20).fold(eicar(), |content, _| zip(&content));
    let verdict = scan(&client, &nested).await;
    assert!(exceeded(&verdict), "{verdict:?}");
}

#[tokio::test]
async fn an_encrypted_archive_is_unscannable() {
    let clamd = real().await;
    let client = client(&clamd);
    for archive in [encrypted(b"Dear all"), encrypted(&eicar())] {
        let verdict = scan(&client, &archive).await;
        assert_eq!(verdict, Verdict::Unscannable { why: "Heuristics.Encrypted.Zip".to_owned() });
    }
    let beside = [&encrypted(b"Dear all")[..], &eicar()].concat();
    assert!(matches!(scan(&client, &beside).await, Verdict::Infected { .. } | Verdict::Unscannable { .. }));
}
