//! Monitoring from outside is made of names: of metrics, of labels, of events, of alerts. Here every name in
//! `monitoring/` is compared with the daemon itself, the rules are tried with promtool, and a real Prometheus
//! watches a real outage.

mod dashboard;
mod heartbeat;
mod lag;
mod names;
mod outage;
mod promql;
mod rules;
mod wazuh;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use devkit::forms::Form;
use devkit::stage::{Router, Stage, StageOptions};
use serde_json::Value;

/// Longest duration of anything before a test calls it lost. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(50);

/// A file of `monitoring/`, or another one of this repository.
fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(shipped(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs promtool in `dir`; a machine without it fails, rather than passing unseen.
fn promtool(dir: &Path, arguments: &[&str]) {
    let output = Command::new("promtool")
        .args(arguments)
        .current_dir(dir)
        .output()
        .expect("promtool is missing: scripts/install-missing monitoring");
    let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}:\n{output_text}");
}

/// A router that is ready, on a stage of its own.
async fn routing(forms: &[Form], extra: &str) -> (Stage, Router) {
    let stage =
        Stage::start(StageOptions { sample_forms: false, ..StageOptions::default() }).await.expect("a stage");
    devkit::forms::load_into(&stage.database, forms).await.expect("forms");
    let binary = Path::new(env!("CARGO_BIN_EXE_maple-router"));
    let mut router = stage.router(binary, "router", extra).await.expect("a router");
    router.ready().await.expect("ready");
    (stage, router)
}

/// Waits until a metric is as wanted.
async fn until(router: &Router, series: &str, wanted: impl Fn(f64) -> bool) -> f64 {
    let name = format!("maple_router_{series}");
    let look = async {
        loop {
            if let Some(value) = router.metric(&name).await.expect("metrics").filter(|value| wanted(*value)) {
                return value;
            }
            tokio::time::sleep(STEP).await;
        }
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(value) => value,
        Err(_) => panic!(
            "{series} is {:?} after {PATIENCE:?}:\n{}",
            router.metric(&name).await.expect("metrics"),
            router.log()
        ),
    }
}
