//! How devkit's clamd ends: whatever becomes of its test, it does not live on and none of its files is left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use devkit::clamd::{Clamd, ClamdOptions};
use devkit::waiting;

use crate::harness::{PATIENCE, real};

const STEP: Duration = Duration::from_millis(20);

/// What is left of an instance with this socket.
fn is_left(socket: &Path) -> bool {
    let root = socket.ancestors().nth(2).expect("its directory");
    let words = root.display().to_string();
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let is_clamd = |line: Vec<u8>| {
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("clamd") && line.contains(&words)
    };
    root.exists() || lines.any(is_clamd)
}

async fn ended(socket: &Path) {
    assert!(waiting::until(PATIENCE, STEP, async || !is_left(socket)).await, "{}", socket.display());
}

#[tokio::test]
async fn dropping_it_or_a_panic_leaves_nothing() {
    let clamd = real().await;
    let socket = clamd.socket();
    assert!(is_left(&socket));
    drop(clamd);
    ended(&socket).await;

    let (tells, told) = tokio::sync::oneshot::channel();
    let test = tokio::spawn(async {
        let clamd = real().await;
        tells.send(clamd.socket()).expect("told");
        clamd.freeze().expect("frozen");
        panic!("as a test does");
    });
    let socket = told.await.expect("a clamd");
    assert!(test.await.expect_err("it panics").is_panic());
    ended(&socket).await;
}

/// This test runs itself as a process of its own, which is killed.
#[tokio::test]
async fn a_killed_test_leaves_nothing() {
    const VICTIM: &str = "CLAMD_TEST_VICTIM";
    if let Some(path) = std::env::var_os(VICTIM) {
        let mut clamd = real().await;
        clamd.restart().await.expect("restarted");
        clamd.freeze().expect("frozen");
        std::fs::write(path, clamd.socket().display().to_string()).expect("told");
        std::future::pending::<()>().await;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let (told, telling) = (folder.path().join("told"), folder.path().join("telling"));
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "ends::a_killed_test_leaves_nothing"])
        .env(VICTIM, &telling)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a victim");
    let socket = waiting::find(PATIENCE, STEP, async || {
        std::fs::rename(&telling, &told).ok();
        std::fs::read_to_string(&told).ok().filter(|path| !path.is_empty()).map(PathBuf::from)
    });
    let socket = socket.await.expect("the victim has a clamd");
    assert!(is_left(&socket));
    victim.kill().expect("killed");
    victim.wait().expect("waited for");
    ended(&socket).await;
}

#[tokio::test]
async fn where_it_is_missing_or_does_not_start_it_says_so() {
    let missing = ClamdOptions { program: "/no/such/clamd".into(), ..ClamdOptions::default() };
    let told = format!("{:#}", Clamd::start(missing).await.expect_err("missing"));
    assert!(told.contains("clamav-daemon") && told.contains("scripts/install-missing scanner"), "{told}");
    let bad = ClamdOptions { settings: vec![("NoSuchSetting", "yes".to_owned())], ..ClamdOptions::default() };
    let told = format!("{:#}", Clamd::start(bad).await.expect_err("bad"));
    assert!(told.contains("does not answer"), "{told}");
}
