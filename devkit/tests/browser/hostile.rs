//! Text of strangers: each kind does what it wants where a page is careless, and nothing where text is shown as text or a
//! policy forbids it. Without the first half the second could not fail.

use devkit::browser::{Browser, Hostile, Intent};

use crate::site::Site;

/// Whether the text had its way.
async fn had_its_way(browser: &Browser, hostile: &Hostile, marker: &str) -> bool {
    match hostile.intent {
        Intent::Run => browser.script_ran(marker).await.expect("the console"),
        Intent::Load => !browser.loaded(marker).await.expect("the requests").is_empty(),
        Intent::Spoof => browser.count(&format!("#{marker}")).await.expect("a page") > 0,
    }
}

/// Shows each text in a page, and tells which had their way.
async fn outcomes(how: &[(&str, &str)], kinds: &[Intent]) -> Vec<(&'static str, bool)> {
    let (site, elsewhere) = (Site::start().await, Site::start().await);
    let browser = Browser::start().await.expect("a browser");
    let mut told = Vec::new();
    for at in 0..Hostile::all("m", &elsewhere.origin()).len() {
        let marker = format!("m{at}x");
        let hostile = Hostile::all(&marker, &elsewhere.origin()).swap_remove(at);
        if kinds.contains(&hostile.intent) {
            let mut how = how.to_vec();
            how.push(("text", &hostile.text));
            browser.open(&site.showing(&how)).await.expect("the page");
            told.push((hostile.name, had_its_way(&browser, &hostile, &marker).await));
        }
    }
    told
}

fn all(told: &[(&'static str, bool)], way: bool) {
    let others = told.iter().filter(|(_, had)| *had != way).map(|(name, _)| name).collect::<Vec<_>>();
    assert!(!told.is_empty() && others.is_empty(), "not {way}: {others:?}");
}

const EVERY: [Intent; 3] = [Intent::Run, Intent::Load, Intent::Spoof];

#[tokio::test]
async fn where_a_page_is_careless_each_has_its_way() {
    all(&outcomes(&[("careless", "")], &EVERY).await, true);
}

#[tokio::test]
async fn text_shown_as_text_does_nothing() {
    all(&outcomes(&[], &EVERY).await, false);
}

#[tokio::test]
async fn a_policy_alone_keeps_scripts_and_loads_back_and_no_heading() {
    let how = [("careless", ""), ("csp", "default-src 'none'")];
    all(&outcomes(&how, &[Intent::Run, Intent::Load]).await, false);
    all(&outcomes(&how, &[Intent::Spoof]).await, true);
}

#[tokio::test]
async fn what_runs_and_loads_in_a_sandboxed_frame_is_seen() {
    let loads = [Intent::Load];
    all(&outcomes(&[("sandbox", "")], &[Intent::Run]).await, false);
    all(&outcomes(&[("sandbox", "")], &loads).await, true);
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    let text = Hostile::all("inner", "http://elsewhere.example").swap_remove(0).text;
    browser.open(&site.showing(&[("sandbox", "allow-scripts"), ("text", &text)])).await.unwrap();
    browser.wait_until("the script ran", async || browser.script_ran("inner").await).await.unwrap();
}
