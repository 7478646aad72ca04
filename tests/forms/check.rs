//! Line `versions` of `check`: one guard at a time is taken away, and the line names it.

use maple_router::config::Database;
use maple_router::db::contract::{ContractOptions, inspect};
use maple_router::db::{Pool, PoolOptions};
use maple_router::ops::clock::SystemClock;
use maple_router::ports::{CheckLevel, CheckLine};

use crate::harness::{Scene, form, zoe};

impl Scene {
    /// The line, as the daemon's role sees it.
    async fn line(&self) -> CheckLine {
        let url = self.db.url_as("forms_app");
        let database = Database { url, max_connections: 2, ..Database::default() };
        let pool = Pool::new(&database, PoolOptions::new(std::sync::Arc::new(SystemClock))).expect("a pool");
        let options =
            ContractOptions { checks: maple_router::daemon::checks(), ..ContractOptions::default() };
        let lines = inspect(&pool, &options).await;
        lines.into_iter().find(|line| line.name == "versions").expect("the line")
    }
}

#[tokio::test]
async fn what_guards_versions_is_looked_at_and_named_where_it_is_gone() {
    let scene = Scene::new().await;
    let line = scene.line().await;
    assert!(line.level == CheckLevel::Ok && line.detail.contains("no form is managed yet"), "{line:?}");
    scene.followed(&form("f", "one")).await;
    let line = scene.line().await;
    assert!(line.level == CheckLevel::Ok && line.detail.contains("one form is managed"), "{line:?}");
    for (table, trigger) in [
        ("content.versions", "guard"),
        ("content.entries", "guard"),
        ("content.current", "guard"),
        ("content.current", "place"),
        ("content.current", "content_managed"),
        ("actions", "content_managed"),
        ("templates", "content_managed"),
    ] {
        scene.sql(&format!("ALTER TABLE {table} DISABLE TRIGGER {trigger}")).await;
        let line = scene.line().await;
        let said = format!("trigger {trigger} on ");
        assert!(line.level == CheckLevel::Fail && line.detail.contains(&said), "{table}: {line:?}");
        assert!(line.detail.contains("is disabled"), "{line:?}");
        scene.sql(&format!("ALTER TABLE {table} ENABLE TRIGGER {trigger}")).await;
    }
    for (give, take, said) in [
        (
            "GRANT INSERT ON content.decisions TO forms_app",
            "REVOKE INSERT ON content.decisions FROM forms_app",
            "has INSERT on content.decisions, and should not",
        ),
        (
            "REVOKE SELECT ON content.current FROM forms_app",
            "GRANT SELECT ON content.current TO forms_app",
            "has no SELECT on content.current",
        ),
    ] {
        scene.sql(give).await;
        let line = scene.line().await;
        assert!(line.level == CheckLevel::Fail && line.detail.contains(said), "{line:?}");
        scene.sql(take).await;
    }
    assert_eq!(scene.line().await.level, CheckLevel::Ok);
}

#[tokio::test]
async fn a_form_that_is_not_what_it_follows_is_named_and_put_right_by_promoting_it_again() {
    let scene = Scene::new().await;
    let one = scene.followed(&form("f", "one")).await;
    let two = scene.followed(&form("f", "two")).await;
    scene
        .sql(
            "ALTER TABLE actions DISABLE TRIGGER content_managed;
             UPDATE actions SET destination = 'red@example.org' WHERE form_id = 'f';
             ALTER TABLE actions ENABLE TRIGGER content_managed",
        )
        .await;
    let line = scene.line().await;
    assert!(line.level == CheckLevel::Fail && line.detail.contains("f among them"), "{line:?}");
    let again = scene.publisher.promote(two.id, Some(two.id), Some("put right"), &zoe()).await;
    again.expect("judged");
    assert_eq!(scene.line().await.level, CheckLevel::Ok);
    let (back, _) = scene.publisher.rollback("f", None, &zoe()).await.expect("rolled back");
    assert_eq!(back, one.id, "the way back is what it was");
}
