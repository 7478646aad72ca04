//! `check` and the start, against databases that are broken in one way at a time: only the right line fails.

use devkit::postgres::{TestDatabase, Variant};
use maple_router::config::Database;
use maple_router::db::Pool;
use maple_router::db::contract::{ContractOptions, StartDecision, inspect, refuses_start, verdict};
use maple_router::ports::{CheckLevel, CheckLine};

use super::{database, options, pool, settings};

const NAMES: [&str; 15] = [
    "database",
    "schema",
    "audit_values",
    "grants",
    "rls_attachments",
    "updated_at_trigger",
    "router_schema",
    "grey_queue",
    "uploads",
    "versions",
    "retention",
    "history",
    "screening",
    "grading",
    "forms",
];

const FORM: &str = "INSERT INTO forms (id, name) VALUES ('f', 'F');
    INSERT INTO actions (form_id, action_order, action_type, destination) VALUES ('f', 1, 'email_raw', 'a@example.org')";

async fn healthy() -> TestDatabase {
    let db = database(Variant::default()).await;
    db.alter(FORM).await.expect("a form");
    db
}

async fn look(db: &TestDatabase) -> Vec<CheckLine> {
    inspect(&pool(db), &crate::contract_options()).await
}

/// Name and level of the lines that are not well.
fn unwell(lines: &[CheckLine]) -> Vec<(&str, CheckLevel)> {
    lines.iter().filter(|line| line.level != CheckLevel::Ok).map(|line| (line.name, line.level)).collect()
}

fn line<'a>(lines: &'a [CheckLine], name: &str) -> &'a CheckLine {
    lines.iter().find(|line| line.name == name).expect(name)
}

#[tokio::test]
async fn a_healthy_database_is_well_throughout_in_both_variants() {
    for audit_readable in [false, true] {
        let db = database(Variant { audit_readable, ..Variant::default() }).await;
        db.alter(FORM).await.expect("a form");
        let lines = look(&db).await;
        assert_eq!(lines.iter().map(|line| line.name).collect::<Vec<_>>(), NAMES);
        assert_eq!(unwell(&lines), [], "{lines:#?}");
        assert_eq!(verdict(&lines), StartDecision::Start);
        assert!(line(&lines, "database").detail.contains("as forms_app, no TLS"), "{lines:#?}");
    }
}

/// Breaks a healthy database in one way and tells what the inspection says.
async fn broken_by(sql: &str) -> Vec<CheckLine> {
    let db = healthy().await;
    db.alter(sql).await.expect(sql);
    look(&db).await
}

#[tokio::test]
async fn one_fault_fails_one_line_and_its_words_name_the_thing() {
    // what is done, the line that fails, words in its detail, words in its remedy
    let table = [
        ("ALTER TABLE submissions DROP COLUMN happyfox_status", "schema", "column submissions.happyfox_status", ""),
        ("ALTER TABLE audit_log RENAME detail TO details", "schema", "column audit_log.detail", ""),
        ("DROP TABLE submission_fields", "schema", "table submission_fields", ""),
        ("ALTER TABLE actions ALTER destination TYPE varchar(99), ALTER action_order TYPE bigint", "schema", "actions.action_order is bigint, not integer", ""),
        ("ALTER TYPE clamav_status RENAME VALUE 'infected' TO 'virus'", "schema", "enum clamav_status lacks 'infected'", ""),
        ("ALTER TYPE audit_action RENAME VALUE 'email_failed' TO 'mail_failed'", "audit_values", "lacks email_failed", "migrate --only 011"),
        ("REVOKE SELECT ON templates FROM forms_app", "grants", "SELECT on templates", "GRANT SELECT ON templates TO forms_app"),
        ("REVOKE UPDATE ON submissions FROM forms_app", "grants", "UPDATE on submissions", "GRANT UPDATE ON submissions TO forms_app"),
        ("REVOKE INSERT ON audit_log FROM forms_app", "grants", "INSERT on audit_log", "GRANT INSERT ON audit_log TO forms_app"),
        ("REVOKE SELECT ON attachments FROM forms_app", "grants", "SELECT on attachments", "GRANT SELECT ON attachments TO forms_app"),
        ("REVOKE USAGE ON SEQUENCE audit_log_id_seq FROM forms_app", "grants", "sequence public.audit_log_id_seq", "GRANT USAGE ON SEQUENCE public.audit_log_id_seq TO forms_app"),
        ("REVOKE USAGE ON TYPE submission_status FROM PUBLIC, forms_app", "grants", "type submission_status", "GRANT USAGE ON TYPE submission_status TO forms_app"),
        ("DROP POLICY submissions_app ON submissions", "grants", "sees rows of submissions", "CREATE POLICY submissions_router_read ON submissions FOR SELECT TO forms_app USING (true)"),
        ("ALTER TABLE actions ENABLE ROW LEVEL SECURITY", "grants", "sees rows of actions", ""),
        ("DROP POLICY audit_log_insert ON audit_log", "grants", "may add rows of audit_log", "WITH CHECK (true)"),
        ("DROP POLICY attachments_app ON attachments", "rls_attachments", "sees no attachment at all", "CREATE POLICY attachments_router_read ON attachments FOR SELECT TO forms_app USING (true)"),
        ("ALTER POLICY attachments_app ON attachments TO forms_loader", "rls_attachments", "sees no attachment at all", ""),
        ("ALTER POLICY attachments_app ON attachments USING (clamav_status <> 'infected')", "rls_attachments", "only where policy attachments_app", ""),
        ("CREATE POLICY tenant ON attachments AS RESTRICTIVE USING (gcs_bucket <> 'other')", "rls_attachments", "restrictive policy tenant", ""),
        ("DROP POLICY attachments_app ON attachments; CREATE POLICY w ON attachments FOR UPDATE TO forms_app USING (true)", "rls_attachments", "sees no attachment at all", ""),
        ("ALTER TABLE attachments RENAME TO attachments_all; GRANT SELECT, UPDATE ON attachments_all TO forms_app;
          CREATE VIEW attachments AS SELECT * FROM attachments_all WHERE clamav_status <> 'infected';
          GRANT SELECT, UPDATE ON attachments TO forms_app", "rls_attachments", "no plain table", ""),
    ];
    for (sql, name, detail, remedy) in table {
        let lines = broken_by(sql).await;
        let failing: Vec<&str> =
            lines.iter().filter(|line| line.level == CheckLevel::Fail).map(|line| line.name).collect();
        assert_eq!(failing, [name], "{sql}: {lines:#?}");
        let line = line(&lines, name);
        assert!(line.detail.contains(detail), "{sql}: {line:?}");
        assert!(line.remedy.as_deref().is_some_and(|text| text.contains(remedy)), "{sql}: {line:?}");
        assert!(refuses_start(&lines), "{sql}");
    }
}

#[tokio::test]
async fn before_011_only_the_audit_values_fail() {
    let db = database(Variant { with_011: false, ..Variant::default() }).await;
    db.alter(FORM).await.expect("a form");
    let lines = look(&db).await;
    assert_eq!(unwell(&lines), [("audit_values", CheckLevel::Fail)]);
    for word in ["submission_routed", "submission_route_failed", "email_sent", "email_failed"] {
        assert!(line(&lines, "audit_values").detail.contains(word), "{word}");
    }
}

#[tokio::test]
async fn what_a_remedy_says_mends_it() {
    for sql in [
        "REVOKE SELECT ON templates FROM forms_app",
        "REVOKE INSERT ON audit_log FROM forms_app; REVOKE USAGE ON SEQUENCE audit_log_id_seq FROM forms_app",
        "DROP POLICY submissions_app ON submissions",
        "DROP POLICY audit_log_insert ON audit_log",
    ] {
        let db = healthy().await;
        db.alter(sql).await.expect(sql);
        let remedy = line(&look(&db).await, "grants").remedy.clone().expect("a remedy");
        db.alter(&remedy).await.expect(&remedy);
        assert_eq!(unwell(&look(&db).await), [], "{sql} mended by {remedy}");
    }
}

#[tokio::test]
async fn one_oddity_warns_on_one_line_and_does_not_stop_a_start() {
    let touch = |body: &str| {
        format!(
            "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$;
             CREATE TRIGGER touched BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION touch()"
        )
    };
    let table = [
        (touch("NEW.updated_at := now()"), "updated_at_trigger", "trigger touched"),
        (touch("NEW.updated_at = clock_timestamp()"), "updated_at_trigger", "trigger touched"),
        (touch("SELECT now() INTO NEW.updated_at"), "updated_at_trigger", "trigger touched"),
        ("CREATE SCHEMA router".to_owned(), "router_schema", "may not use it"),
        (
            "GRANT DELETE ON audit_log TO forms_app".to_owned(),
            "grants",
            "DELETE on audit_log is more than needed",
        ),
        ("REVOKE UPDATE ON attachments FROM forms_app".to_owned(), "grants", "mark-attachment will not work"),
        ("INSERT INTO submissions (form_id) VALUES ('f')".to_owned(), "history", "not_before is not set"),
        (
            "INSERT INTO forms (id, name) VALUES ('idle', '')".to_owned(),
            "forms",
            "without actions, their submissions will fail with no_actions: idle",
        ),
        (
            "UPDATE actions SET action_type = 'happyfox_template'".to_owned(),
            "forms",
            "nobody gets anything: f",
        ),
        ("UPDATE actions SET action_type = 'email_template'".to_owned(), "forms", "names no template: f"),
    ];
    for (sql, name, detail) in table {
        let lines = broken_by(&sql).await;
        assert_eq!(unwell(&lines), [(name, CheckLevel::Warn)], "{sql}: {lines:#?}");
        assert!(line(&lines, name).detail.contains(detail), "{sql}: {:?}", line(&lines, name));
        assert_eq!(verdict(&lines), StartDecision::Start, "{sql}");
    }
}

#[tokio::test]
async fn what_is_harmless_stays_well() {
    for sql in [
        // reads updated_at, is disabled, or is about something else
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM NEW.updated_at; RETURN NEW; END $$;
         CREATE TRIGGER t AFTER UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
         CREATE TRIGGER t BEFORE UPDATE ON submissions FOR EACH ROW EXECUTE FUNCTION f();
         ALTER TABLE submissions DISABLE TRIGGER t",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
         CREATE TRIGGER t BEFORE INSERT ON submissions FOR EACH ROW EXECUTE FUNCTION f()",
        // column grants instead of a table grant
        "REVOKE UPDATE ON submissions FROM forms_app;
         GRANT UPDATE (status, routing_result, happyfox_status, updated_at) ON submissions TO forms_app",
        // policies by way of PUBLIC, or none at all
        "ALTER POLICY attachments_app ON attachments TO PUBLIC",
        "ALTER TABLE attachments DISABLE ROW LEVEL SECURITY",
        "CREATE POLICY lenient ON attachments AS RESTRICTIVE USING (true)",
        // an identity column needs no grant on its sequence
        "ALTER TABLE audit_log ALTER id DROP DEFAULT; DROP SEQUENCE audit_log_id_seq;
         ALTER TABLE audit_log ALTER id ADD GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE forms ALTER name TYPE varchar(200)",
    ] {
        let lines = broken_by(sql).await;
        assert_eq!(unwell(&lines), [], "{sql}: {lines:#?}");
    }
}

#[tokio::test]
async fn a_missing_table_is_the_schemas_fault_alone() {
    for (table, also_untried) in [("attachments", "rls_attachments"), ("actions", "forms")] {
        let lines = broken_by(&format!("DROP TABLE {table} CASCADE")).await;
        assert_eq!(unwell(&lines), {
            let mut expected = vec![("schema", CheckLevel::Fail), (also_untried, CheckLevel::Warn)];
            expected.sort_by_key(|(name, _)| NAMES.iter().position(|known| known == name));
            expected
        });
        assert!(line(&lines, also_untried).detail.contains("not tried"), "{lines:#?}");
    }
}

#[tokio::test]
async fn the_finalized_column_is_part_of_the_contract_once_it_is_named() {
    let db = healthy().await;
    let named =
        ContractOptions { finalized_column: Some("finalized_at".to_owned()), ..crate::contract_options() };
    let lines = inspect(&pool(&db), &named).await;
    assert_eq!(unwell(&lines), [("schema", CheckLevel::Fail)]);
    db.alter("ALTER TABLE submissions ADD finalized_at timestamp").await.expect("a column");
    let detail = line(&inspect(&pool(&db), &named).await, "schema").detail.clone();
    assert!(detail.contains("timestamp without time zone, not timestamp with time zone"), "{detail}");
    db.alter("ALTER TABLE submissions ALTER finalized_at TYPE timestamptz").await.expect("its type");
    assert_eq!(unwell(&inspect(&pool(&db), &named).await), []);
}

#[tokio::test]
async fn history_counts_what_lies_before() {
    let db = healthy().await;
    db.alter(
        "INSERT INTO submissions (form_id, status, created_at)
         SELECT 'f', CASE WHEN n = 1 THEN 'received' ELSE 'routed' END::submission_status, '2020-01-01' FROM generate_series(1, 3) n",
    )
    .await
    .expect("old rows");
    let not_before = Some("2021-01-01T00:00:00Z".parse().expect("a time"));
    let lines = inspect(&pool(&db), &ContractOptions { not_before, ..crate::contract_options() }).await;
    let history = line(&lines, "history");
    assert_eq!(history.level, CheckLevel::Ok);
    assert!(
        history.detail.contains("3 submissions before 2021-01-01T00:00:00Z (1 of them received)"),
        "{history:?}"
    );
}

#[tokio::test]
async fn an_owner_is_warned_of() {
    let db = healthy().await;
    let as_owner = Pool::new(&Database { url: db.owner_url(), ..settings(&db) }, options()).expect("a pool");
    let lines = inspect(&as_owner, &crate::contract_options()).await;
    let database = line(&lines, "database");
    assert_eq!(database.level, CheckLevel::Warn);
    assert!(database.detail.contains("owns the tables"), "{database:?}");
    assert_eq!(verdict(&lines), StartDecision::Start);
}

#[tokio::test]
async fn an_unreachable_database_fails_one_line_and_refutes_nothing() {
    let nowhere =
        Database { url: "postgres://forms_app@127.0.0.1:1/forms".to_owned(), ..Database::default() };
    let pool = Pool::new(&nowhere, options()).expect("a pool");
    let lines = inspect(&pool, &crate::contract_options()).await;
    assert_eq!(lines.iter().map(|line| line.name).collect::<Vec<_>>(), NAMES);
    assert_eq!(lines[0].level, CheckLevel::Fail);
    assert!(
        lines[1..].iter().all(|line| line.level == CheckLevel::Warn && line.detail.contains("not tried"))
    );
    assert_eq!(verdict(&lines), StartDecision::LookAgain);
}
