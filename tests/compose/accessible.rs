//! Our pages before a judge that knows nothing of us: axe, in a real Chromium, on a light and on a dark ground, wide and as
//! narrow as a telephone.
//!
//! Needs Chromium and its driver (`scripts/install-missing browser`); axe-core is in `tests/axe`.

use std::fs;

use devkit::browser::{Browser, Finding, Rules};
use tempfile::TempDir;

use crate::fixtures::{Case, read};
use crate::reading::own_mails;

/// The rules that are broken in a page or may be, on this ground and this wide.
async fn found(browser: &Browser, html: &str, (dark, width): (bool, u32)) -> Vec<Finding> {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("mail.html");
    fs::write(&path, html).expect("a page");
    browser.dark(dark).await.expect("a ground");
    browser.width(width).await.expect("a width");
    browser.open(&format!("file://{}", path.display())).await.expect("the page");
    let judged = browser.axe_by(Rules::All).await.expect("a judgement");
    assert!(judged.passed.len() >= 10, "{judged:?}");
    judged.violations.into_iter().chain(judged.incomplete).collect()
}

#[tokio::test]
async fn axe_finds_nothing_on_our_pages() {
    let browser = Browser::start().await.expect("a browser");
    for (name, case) in own_mails() {
        let eml = case.eml();
        let message = read(&eml);
        let html = message.body_html(0).expect("html");
        for screen in [(false, 1000), (true, 360)] {
            let found = found(&browser, &html, screen).await;
            assert_eq!(found, [], "{name}, dark and width: {screen:?}");
        }
    }
}

/// The judge judges: what he must find, he finds, and the dark ground is one.
#[tokio::test]
async fn axe_finds_what_is_wrong() {
    let browser = Browser::start().await.expect("a browser");
    let eml = Case::default().eml();
    let message = read(&eml);
    let html = message.body_html(0).expect("html").into_owned();
    let wrong = [
        ("html-has-lang", html.replace(" lang=\"en\"", ""), false),
        ("color-contrast", html.replace("color: #45454d", "color: #bbbbbb"), false),
        ("color-contrast", html.replace("color: #c3c3cd", "color: #444444"), true),
    ];
    for (rule, html, dark) in wrong {
        let found = found(&browser, &html, (dark, 1000)).await;
        assert!(found.iter().any(|one| one.rule == rule), "{rule}: {found:?}");
    }
}
