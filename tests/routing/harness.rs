//! What every test of the mission needs.

use std::path::Path;
use std::time::Duration;

use devkit::forms::Form;
use devkit::stage::{Stage, StageOptions};
use serde_json::Value;
use uuid::Uuid;

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_maple-router"))
}

/// A stage with these forms only.
pub(crate) async fn stage(forms: &[Form]) -> Stage {
    let stage =
        Stage::start(StageOptions { sample_forms: false, ..StageOptions::default() }).await.expect("a stage");
    let mut loader = stage.database.client_as("forms_loader").await.expect("the loader");
    devkit::forms::load(&mut loader, forms).await.expect("forms");
    stage
}

/// A row as `forms_app` sees it.
pub(crate) struct Row {
    pub(crate) status: String,
    pub(crate) ledger: Value,
}

pub(crate) async fn row(stage: &Stage, id: Uuid) -> Row {
    let client = stage.database.client_as("forms_app").await.expect("forms_app");
    let row = client
        .query_one("SELECT status::text, routing_result FROM submissions WHERE id = $1", &[&id])
        .await
        .expect("the row");
    Row { status: row.get(0), ledger: row.get(1) }
}

/// Waits until the row has one of these statuses.
pub(crate) async fn await_status(stage: &Stage, id: Uuid, wanted: &[&str]) -> Row {
    let mut last = String::new();
    for _ in 0..600 {
        let found = row(stage, id).await;
        if wanted.contains(&found.status.as_str()) {
            return found;
        }
        last = format!("{} {}", found.status, found.ledger);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{id} did not become {wanted:?}: {last}");
}

/// The audit trail of a submission: action and detail, in order.
pub(crate) async fn audit(stage: &Stage, id: Uuid) -> Vec<(String, Value)> {
    let client = stage.database.client_as("forms_app").await.expect("forms_app");
    let rows = client
        .query("SELECT action::text, detail FROM audit_log WHERE submission_id = $1 ORDER BY id", &[&id])
        .await
        .expect("audit");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Only the actions.
pub(crate) async fn audited(stage: &Stage, id: Uuid) -> Vec<String> {
    audit(stage, id).await.into_iter().map(|(action, _)| action).collect()
}
