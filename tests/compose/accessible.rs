//! Our pages before a judge that knows nothing of us: axe, in a real Chromium, on a light and on a dark ground, wide and as
//! narrow as a telephone.
//!
//! Needs Chromium (`scripts/install-missing python`) and axe-core, which `make python` puts into `.venv`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixtures::{Case, read};
use crate::reading::own_mails;

/// Prefix of axe's output in the page that Chromium prints.
const SAID: &str = "axe-says:";

/// axe, as pip brings it.
fn axe() -> String {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/lib");
    let pythons =
        fs::read_dir(&venv).unwrap_or_else(|_| panic!("{} is missing; run `make python`", venv.display()));
    let found = pythons
        .map(|python| python.expect("an entry").path().join("site-packages/axe_core_python/axe.min.js"))
        .find(|path| path.exists());
    fs::read_to_string(found.expect("axe-core-python in .venv; run `make python`")).expect("axe")
}

/// The page, with a judge before its end who writes his findings into the title.
fn judged(html: &str, axe: &str) -> String {
    let judge = format!(
        "<script>{axe}</script><script>axe.run(document, {{}}).then(\
         found => {{ document.title = '{SAID}' + found.passes.length + ' ' + JSON.stringify(found.violations.concat(\
         found.incomplete).map(one => [one.id, one.nodes.map(node => node.html)])) + '{SAID}'; }},\
         error => {{ document.title = '{SAID}' + error + '{SAID}'; }});</script>"
    );
    let at = html.rfind("</body>").expect("a body");
    format!("{}{judge}{}", &html[..at], &html[at..])
}

/// Axe's result for the page: how many rules it passes, and what it finds.
fn said(page: &Path, dark: bool, width: u32) -> String {
    let profile = tempfile::tempdir().expect("a profile");
    let scheme = if dark { 0 } else { 1 };
    let ended = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--window-size={width},900"))
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium; scripts/install-missing python");
    let printed = String::from_utf8_lossy(&ended.stdout).into_owned();
    let said =
        printed.split("<title>").nth(1).and_then(|title| title.split(SAID).nth(1)).map(ToOwned::to_owned);
    said.unwrap_or_else(|| {
        panic!("axe said nothing: {} {}", ended.status, String::from_utf8_lossy(&ended.stderr))
    })
}

fn page(folder: &Path, name: &str, html: &str, axe: &str) -> PathBuf {
    let path = folder.join(format!("{}.html", name.replace(' ', "-")));
    fs::write(&path, judged(html, axe)).expect("a page");
    path
}

#[test]
fn axe_finds_nothing_on_our_pages() {
    let (folder, axe) = (tempfile::tempdir().expect("a folder"), axe());
    for (name, case) in own_mails() {
        let eml = case.eml();
        let message = read(&eml);
        let path = page(folder.path(), name, &message.body_html(0).expect("html"), &axe);
        for (dark, width) in [(false, 1000), (true, 360)] {
            let said = said(&path, dark, width);
            let (passed, found) = said.split_once(' ').expect("a number and what was found");
            assert!(passed.parse::<u32>().expect("a number") >= 10, "{name}: {said}");
            assert_eq!(found, "[]", "{name}, dark: {dark}, {width} wide");
        }
    }
}

/// The judge judges: what he must find, he finds, and the dark ground is one.
#[test]
fn axe_finds_what_is_wrong() {
    let (folder, axe) = (tempfile::tempdir().expect("a folder"), axe());
    let eml = Case::default().eml();
    let message = read(&eml);
    let html = message.body_html(0).expect("html").into_owned();
    let wrong = [
        ("html-has-lang", html.replace(" lang=\"en\"", ""), false),
        ("color-contrast", html.replace("color: #45454d", "color: #bbbbbb"), false),
        ("color-contrast", html.replace("color: #c3c3cd", "color: #444444"), true),
    ];
    for (rule, html, dark) in wrong {
        let said = said(&page(folder.path(), rule, &html, &axe), dark, 1000);
        assert!(said.contains(rule), "{rule}: {said}");
    }
}
