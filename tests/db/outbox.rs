//! Line `router_schema` of `check`: one thing is wrong at a time, and it is named.

use devkit::postgres::{TestDatabase, Variant};
use maple_router::db::contract::{ContractOptions, StartDecision, inspect, verdict};
use maple_router::ports::{CheckLevel, CheckLine};

use super::{database, pool};

const VARIANT: Variant = Variant {
    audit_readable: false,
    with_011: true,
    router: true,
    content: false,
    screening: false,
    grading: false,
};

async fn line(db: &TestDatabase, column: Option<&str>) -> CheckLine {
    let options =
        ContractOptions { finalized_column: column.map(str::to_owned), ..crate::contract_options() };
    let lines = inspect(&pool(db), &options).await;
    assert_eq!(
        verdict(&lines),
        StartDecision::Start,
        "none of it keeps the daemon from starting: {lines:#?}"
    );
    lines.into_iter().find(|line| line.name == "router_schema").expect("the line")
}

#[tokio::test]
async fn a_healthy_outbox_is_well() {
    let db = database(VARIANT).await;
    let shown = line(&db, None).await;
    assert_eq!(shown.level, CheckLevel::Ok, "{shown:?}");
    assert!(shown.detail.contains("with the outbox"), "{shown:?}");
}

#[tokio::test]
async fn one_fault_is_named() {
    let table = [
        ("ALTER TABLE submissions DISABLE TRIGGER router_finalized", "trigger router_finalized on submissions is disabled"),
        ("ALTER TABLE submissions DISABLE TRIGGER router_replayed", "trigger router_replayed on submissions is disabled"),
        ("ALTER TABLE attachments DISABLE TRIGGER USER", "trigger router_scanned on attachments is disabled"),
        ("ALTER TABLE attachments ENABLE REPLICA TRIGGER router_removed", "trigger router_removed on attachments is disabled"),
        ("DROP TRIGGER router_found_infected ON attachments", "trigger router_found_infected on attachments is missing"),
        ("DROP TRIGGER router_scanned ON attachments; CREATE TRIGGER router_scanned AFTER UPDATE ON attachments
          FOR EACH ROW EXECUTE FUNCTION router.on_attachment()", "trigger router_scanned on attachments is missing"),
        ("ALTER FUNCTION router.on_attachment() SECURITY INVOKER", "router.on_attachment is not SECURITY DEFINER"),
        ("ALTER TABLE attachments FORCE ROW LEVEL SECURITY", "hide rows of attachments from forms_owner, who owns router.on_attachment"),
        ("ALTER TABLE submissions FORCE ROW LEVEL SECURITY", "hide rows of submissions from forms_owner"),
        ("SELECT router.set_finalized_column('created_at')", "go by another finalized column than [readiness] finalized_column, which is none"),
        ("REVOKE DELETE ON router.outbox FROM forms_app", "no DELETE on router.outbox"),
        ("REVOKE INSERT, SELECT ON router.transitions FROM forms_app", "no INSERT on router.transitions, SELECT on router.transitions"),
    ];
    for (sql, detail) in table {
        let db = database(VARIANT).await;
        db.alter(sql).await.expect(sql);
        let shown = line(&db, None).await;
        assert_eq!(shown.level, CheckLevel::Fail, "{sql}: {shown:?}");
        assert!(shown.detail.contains(detail), "{sql}: {shown:?}");
        assert!(shown.remedy.is_some_and(|remedy| remedy.contains("migrate --router")), "{sql}");
    }
}

#[tokio::test]
async fn the_finalized_column_agrees_with_the_configuration_or_fails() {
    let db = database(VARIANT).await;
    db.alter("ALTER TABLE submissions ADD finalized_at timestamptz").await.expect("a column");
    let shown = line(&db, Some("finalized_at")).await;
    assert_eq!(shown.level, CheckLevel::Fail, "{shown:?}");
    assert!(
        shown.detail.contains("router_finalized_later") && shown.detail.contains("which is finalized_at"),
        "{shown:?}"
    );
    db.alter("SELECT router.set_finalized_column('finalized_at')").await.expect("named");
    assert_eq!(line(&db, Some("finalized_at")).await.level, CheckLevel::Ok);
}

#[tokio::test]
async fn without_an_index_sweeps_are_slow_and_nothing_is_lost() {
    let db = database(VARIANT).await;
    db.alter("DROP INDEX submissions_router_unalerted").await.expect("dropped");
    let shown = line(&db, None).await;
    assert_eq!(shown.level, CheckLevel::Warn, "{shown:?}");
    assert!(shown.detail.contains("without index submissions_router_unalerted"), "{shown:?}");
}

/// A stranger's role, which row-level security binds.
#[tokio::test]
async fn functions_of_a_stranger_are_noticed() {
    let db = database(VARIANT).await;
    let eyes = db.superuser().await.expect("superuser");
    eyes.batch_execute("ALTER FUNCTION router.evaluate_routing_readiness(uuid) OWNER TO forms_loader")
        .await
        .expect("given away");
    let shown = line(&db, None).await;
    assert_eq!(shown.level, CheckLevel::Fail, "{shown:?}");
    assert!(
        shown.detail.contains("from forms_loader, who owns router.evaluate_routing_readiness"),
        "{shown:?}"
    );
}
