//! How a browser ends: whatever becomes of its test, none of its processes lives on and none of its files is left.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use devkit::browser::{Browser, Options, Processes};
use devkit::waiting;

use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

/// The crash handlers end by themselves, a moment later, and whoever removes the files waits for the last process.
async fn ended(processes: &Processes) {
    waiting::until(PATIENCE, STEP, async || processes.living().is_empty() && !processes.home().exists())
        .await;
    assert_eq!(processes.living(), Vec::<String>::new());
    assert!(!processes.home().exists(), "{} is left", processes.home().display());
}

#[tokio::test]
async fn dropping_or_closing_it_leaves_no_process_and_no_file() {
    for close in [false, true] {
        let browser = Browser::start().await.unwrap();
        let processes = browser.processes();
        let living = processes.living();
        assert!(living.iter().any(|one| one.ends_with("chromedriver")), "{living:?}");
        assert!(living.iter().filter(|one| one.ends_with("chromium")).count() >= 3, "{living:?}");
        assert!(processes.home().join("profile/Default").exists());
        if close {
            browser.close().await.unwrap();
        } else {
            drop(browser);
        }
        ended(&processes).await;
    }
}

#[tokio::test]
async fn a_panic_leaves_no_process_and_no_file() {
    let (tells, told) = tokio::sync::oneshot::channel();
    let test = tokio::spawn(async {
        let browser = Browser::start().await.unwrap();
        tells.send(browser.processes()).unwrap();
        browser.open("about:blank").await.unwrap();
        panic!("as a test does");
    });
    let processes = told.await.unwrap();
    assert!(test.await.unwrap_err().is_panic());
    ended(&processes).await;
}

/// This test runs itself as a process of its own, which is killed.
#[tokio::test]
async fn a_killed_test_leaves_no_process_and_no_file() {
    const VICTIM: &str = "BROWSER_TEST_VICTIM";
    if let Some(path) = std::env::var_os(VICTIM) {
        let browser = Browser::start().await.unwrap();
        std::fs::write(path, serde_json::to_vec(&browser.processes().tell()).unwrap()).unwrap();
        std::future::pending::<()>().await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (told, telling) = (folder.path().join("told"), folder.path().join("telling"));
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ends::a_killed_test_leaves_no_process_and_no_file"])
        .env(VICTIM, &telling)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let processes = waiting::find(PATIENCE, STEP, async || {
        std::fs::rename(&telling, &told).ok();
        serde_json::from_slice(&std::fs::read(&told).ok()?).ok()
    });
    let processes = Processes::told(processes.await.expect("the victim has a browser"));
    assert!(processes.living().len() >= 4, "{:?}", processes.living());
    victim.kill().unwrap();
    victim.wait().unwrap();
    ended(&processes).await;
}

#[tokio::test]
async fn two_browsers_at_once_know_nothing_of_each_other() {
    let site = Site::start().await;
    let (one, two) = tokio::join!(Browser::start(), Browser::start());
    let (one, two) = (one.unwrap(), two.unwrap());
    one.open(&site.at("/cookie")).await.unwrap();
    two.open(&site.at("/second")).await.unwrap();
    assert_eq!(one.cookies().await.unwrap().len(), 1);
    assert_eq!(two.cookies().await.unwrap(), []);
    let processes = one.processes();
    drop(one);
    ended(&processes).await;
    assert_eq!(two.text("h1").await.unwrap(), "Second page");
}

#[tokio::test]
async fn what_is_missing_or_does_not_fit_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("chromium");
    let script = "#!/bin/sh\ncase $1 in --version) echo Chromium 99.0.1.2 ;; *) echo no display here >&2; exit 1 ;; esac\n";
    std::fs::write(&other, script).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ends = folder.path().join("chromedriver");
    std::fs::write(&ends, "#!/bin/sh\necho no such library >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&ends, std::fs::Permissions::from_mode(0o755)).unwrap();
    let table = [
        (Options { driver: "no-such-driver".into(), ..Options::default() }, "no-such-driver"),
        (Options { browser: "no-such-browser".into(), ..Options::default() }, "no-such-browser"),
        (Options { driver: ends, ..Options::default() }, "no such library"),
        (Options { browser: other, ..Options::default() }, "99.0.1.2"),
    ];
    for (options, what) in table {
        let error = format!("{:#}", Browser::start_with(&options).await.unwrap_err());
        assert!(error.contains(what) && error.contains("scripts/install-missing browser"), "{what}: {error}");
    }
}
