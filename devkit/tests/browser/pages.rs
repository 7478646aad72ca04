//! What a page looks like, what a judge says of it, and what the browser asked for behind it.

use devkit::browser::{AXE_VERSION, Browser, Rules, axe_source};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::site::Site;

async fn media(browser: &Browser, query: &str) -> bool {
    let asked = browser.run("return matchMedia(arguments[0]).matches", vec![json!(query)]).await;
    asked.expect("an answer").as_bool().expect("yes or no")
}

#[tokio::test]
async fn the_ground_is_light_or_dark_in_every_tab() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    let ground =
        async || browser.run("return getComputedStyle(document.body).backgroundColor", vec![]).await.unwrap();
    browser.open(&site.at("/")).await.unwrap();
    assert!(!media(&browser, "(prefers-color-scheme: dark)").await);
    browser.dark(true).await.unwrap();
    assert!(media(&browser, "(prefers-color-scheme: dark)").await);
    assert_eq!(ground().await, json!("rgb(17, 17, 17)"));
    browser.new_tab().await.unwrap();
    browser.open(&site.at("/")).await.unwrap();
    assert_eq!(ground().await, json!("rgb(17, 17, 17)"));
    browser.dark(false).await.unwrap();
    assert_eq!(ground().await, json!("rgb(255, 255, 255)"));
}

#[tokio::test]
async fn a_narrow_screen_is_narrow() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.open(&site.at("/")).await.unwrap();
    assert!(media(&browser, "(min-width: 1000px)").await);
    browser.width(320).await.unwrap();
    assert!(media(&browser, "(width: 320px)").await);
    let wide = browser.run("return document.documentElement.scrollWidth", vec![]).await.unwrap();
    assert_eq!(wide, json!(320), "nothing sticks out");
}

#[tokio::test]
async fn a_picture_shows_the_whole_page_and_paper_is_pdf() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.open(&site.at("/tall")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.png");
    browser.screenshot(&path).await.unwrap();
    let png = std::fs::read(&path).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    // IHDR, the first chunk, begins with width and height.
    let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    assert_eq!(side(16), 1280);
    assert!(side(20) > 3000, "{}", side(20));
    let pdf = browser.pdf().await.unwrap();
    assert!(pdf.starts_with(b"%PDF"), "{:?}", &pdf[..8]);
}

#[tokio::test]
async fn axe_finds_nothing_on_a_good_page_and_what_is_wrong_on_a_spoilt_one() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.open(&site.at("/")).await.unwrap();
    for (dark, width) in [(false, 1280), (true, 320)] {
        browser.dark(dark).await.unwrap();
        browser.width(width).await.unwrap();
        for rules in [Rules::Wcag22Aa, Rules::All] {
            let judged = browser.axe_by(rules).await.unwrap();
            assert_eq!((judged.violations, judged.incomplete), (vec![], vec![]), "dark: {dark}, {rules:?}");
            assert!(judged.passed.len() >= 10 && judged.passed.iter().any(|rule| rule == "target-size"));
        }
    }
    browser.dark(false).await.unwrap();
    browser.open(&site.at("/spoilt")).await.unwrap();
    let judged = browser.axe().await.unwrap();
    let found = judged.violations.iter().map(|found| found.rule.as_str()).collect::<Vec<_>>();
    assert_eq!(found, ["color-contrast", "html-has-lang", "label", "target-size"]);
    let label = &judged.violations[2];
    assert_eq!(label.nodes, ["<input name=\"reason\">"]);
    assert!(label.to_string().contains("<input name=\"reason\">") && label.impact.is_some(), "{label}");
}

#[test]
fn the_judge_is_the_one_that_its_readme_names() {
    let readme = include_str!("../../../tests/axe/README.md");
    let digest = hex::encode(Sha256::digest(axe_source()));
    assert!(readme.contains(&digest), "{digest}");
    assert!(readme.contains(AXE_VERSION) && axe_source().contains(&format!("axe v{AXE_VERSION}")));
}

#[tokio::test]
async fn every_request_is_seen_with_who_was_asked() {
    let (site, elsewhere) = (Site::start().await, Site::start().await);
    let browser = Browser::start().await.unwrap();
    let origin = site.origin();
    browser.open(&site.at("/")).await.unwrap();
    browser.open(&site.at("/moved")).await.unwrap();
    let urls = browser.requests().await.unwrap().into_iter().map(|one| one.url).collect::<Vec<_>>();
    for path in ["/", "/moved", "/second"] {
        assert!(urls.contains(&site.at(path)), "{path}: {urls:?}");
    }
    assert_eq!(browser.foreign_requests(&origin).await.unwrap(), []);

    // Loaded by the page, by a frame of another site in it, and posted by a script.
    let image = format!("<img src=\"{}\">", elsewhere.at("/image"));
    let frame = format!(
        "<iframe src=\"http://localhost:{}{}\"></iframe>",
        elsewhere.port(),
        elsewhere
            .showing(&[("careless", ""), ("text", "<img src='/inner'>")])
            .replace(&elsewhere.origin(), "")
    );
    let beacon = format!("<script>navigator.sendBeacon('{}', 'x')</script>", elsewhere.at("/beacon"));
    let socket = format!("<script>new WebSocket('ws://127.0.0.1:{}/socket')</script>", elsewhere.port());
    let text = format!("{image}{frame}{beacon}{socket}");
    browser.open(&site.showing(&[("careless", ""), ("text", &text)])).await.unwrap();
    let wanted = ["/image", "/inner", "/beacon", "/socket"];
    let all_asked =
        async || Ok(wanted.iter().all(|path| elsewhere.asked().iter().any(|asked| asked == path)));
    browser.wait_until("elsewhere was asked", all_asked).await.unwrap();
    let foreign = browser.foreign_requests(&origin).await.unwrap();
    for path in wanted {
        assert!(foreign.iter().any(|one| one.url.ends_with(path)), "{path}: {foreign:?}");
    }
    assert!(foreign.iter().any(|one| one.method == "POST" && one.url.ends_with("/beacon")), "{foreign:?}");

    // What the page's policy forbids was wanted, and not sent.
    let (before, policy) = (elsewhere.asked().len(), "default-src 'none'");
    browser.open(&site.showing(&[("careless", ""), ("text", &image), ("csp", policy)])).await.unwrap();
    assert_eq!(browser.foreign_requests(&origin).await.unwrap().len(), foreign.len());
    assert_eq!(elsewhere.asked().len(), before);
}

#[tokio::test]
async fn the_console_tells_what_pages_said_and_what_was_refused() {
    let (site, browser) = (Site::start().await, Browser::start().await.unwrap());
    browser.open(&site.at("/")).await.unwrap();
    let said =
        async |what: &str| browser.console().await.unwrap().into_iter().find(|line| line.text.contains(what));
    assert_eq!(said("the page was here").await.unwrap().level, "WARNING");
    let text = "<script>console.log('inline')</script>";
    let refused = site.showing(&[("careless", ""), ("text", text), ("csp", "default-src 'self'")]);
    browser.open(&refused).await.unwrap();
    assert_eq!(said("Content Security Policy").await.unwrap().level, "SEVERE");
    assert!(said("\"inline\"").await.is_none());
    assert!(said("the page was here").await.is_some(), "what was told once is kept");
}
