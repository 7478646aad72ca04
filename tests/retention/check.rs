//! Line `retention` of `check`: what is missing, or too much, is named.

use maple_router::db::contract::{ContractOptions, Look};
use maple_router::ports::CheckLine;
use maple_router::retention::store::contract::CHECK;

use crate::harness::{Scene, pool};

async fn line(scene: &Scene) -> CheckLine {
    let Look::Database(look) = CHECK.look else { panic!("it asks the database") };
    let client = pool(&scene.db, "forms_app").get().await.expect("a connection");
    look(&client, &ContractOptions::default()).await.expect("answered")
}

#[tokio::test]
async fn each_breakage_is_named_with_its_remedy() {
    let scene = Scene::new().await;
    let healthy = format!("{:?}", line(&scene).await);
    assert!(healthy.contains("1 rules, 0 holds, no run has come to its end yet"), "{healthy}");
    for (breakage, mended, named) in [
        (
            "ALTER TABLE content.blobs DISABLE TRIGGER guard",
            "ALTER TABLE content.blobs ENABLE TRIGGER guard",
            "trigger guard on content.blobs is disabled",
        ),
        (
            "ALTER TABLE content.blob_refs DISABLE TRIGGER guard",
            "ALTER TABLE content.blob_refs ENABLE TRIGGER guard",
            "trigger guard on content.blob_refs",
        ),
        (
            "ALTER TABLE attachments DISABLE TRIGGER content_refs",
            "ALTER TABLE attachments ENABLE TRIGGER content_refs",
            "trigger content_refs on public.attachments",
        ),
        (
            "ALTER TABLE content.receipts DISABLE TRIGGER guard",
            "ALTER TABLE content.receipts ENABLE TRIGGER guard",
            "trigger guard on content.receipts",
        ),
        (
            "GRANT UPDATE ON content.holds TO forms_app",
            "REVOKE UPDATE ON content.holds FROM forms_app",
            "this role has UPDATE on content.holds, and should not",
        ),
        (
            "GRANT EXECUTE ON FUNCTION content.purge TO forms_app",
            "REVOKE EXECUTE ON FUNCTION content.purge FROM forms_app",
            "this role may call content.purge",
        ),
        (
            "REVOKE EXECUTE ON FUNCTION content.kept FROM forms_app",
            "GRANT EXECUTE ON FUNCTION content.kept TO forms_app",
            "this role may not call content.kept",
        ),
        (
            "DROP INDEX submissions_content_ended",
            "CREATE INDEX submissions_content_ended ON submissions (created_at, id) WHERE status IN ('routed', 'failed') AND retention_expires_at IS NULL",
            "slow without index submissions_content_ended",
        ),
        (
            "ALTER TABLE submissions FORCE ROW LEVEL SECURITY",
            "ALTER TABLE submissions NO FORCE ROW LEVEL SECURITY",
            "row-level security may hide rows of submissions",
        ),
    ] {
        scene.sql(breakage).await;
        let said = format!("{:?}", line(&scene).await);
        assert!(said.contains(named), "{breakage}: {said}");
        scene.sql(mended).await;
        assert_eq!(format!("{:?}", line(&scene).await), healthy, "{mended}");
    }
}
