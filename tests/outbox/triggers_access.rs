//! A role that may write the row writes the event with it, and gains nothing by it.

use maple_router::db::migrations::ROUTER;
use tokio_postgres::error::SqlState;

use super::Role::{Backend, Owner, Scanner};
use super::{Bench, Role};

/// A role with no right but that on its column.
#[tokio::test]
async fn a_role_that_may_do_nothing_else_flips_and_it_is_announced() {
    let bench = Bench::new().await;
    bench
        .eyes
        .batch_execute(
            "DO $$ BEGIN CREATE ROLE forms_narrow LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
             GRANT SELECT (id), UPDATE (clamav_status) ON attachments TO forms_narrow;
             CREATE POLICY narrow_read ON attachments FOR SELECT TO forms_narrow USING (true);
             CREATE POLICY narrow_write ON attachments FOR UPDATE TO forms_narrow USING (true) WITH CHECK (true)",
        )
        .await
        .expect("a narrow role");
    let narrow = bench.db.client_as("forms_narrow").await.expect("narrow");
    narrow.batch_execute("SET search_path = pg_temp; SET row_security = on").await.expect("another path");
    let subject = bench.submitted("clean", "pending").await;
    let sql = "UPDATE public.attachments SET clamav_status = 'clean' WHERE id = $1";
    narrow.execute(sql, &[&subject.b]).await.expect("flipped");
    assert_eq!(bench.reasons(subject.id).await, ["scan_clean"]);
}

/// A table of one's own in the way changes nothing: the functions name what they mean.
#[tokio::test]
async fn a_temporary_table_or_an_operator_in_the_way_is_not_asked() {
    let bench = Bench::new().await;
    // Objects that a role with CREATE in schema public could make.
    bench
        .db
        .alter(
            "CREATE FUNCTION never(clamav_status, clamav_status) RETURNS boolean LANGUAGE sql AS 'SELECT false';
             CREATE OPERATOR = (LEFTARG = clamav_status, RIGHTARG = clamav_status, FUNCTION = never)",
        )
        .await
        .expect("an operator");
    let scanner = bench.client(Scanner).await;
    scanner
        .batch_execute("CREATE TEMPORARY TABLE attachments (submission_id uuid, clamav_status clamav_status)")
        .await
        .expect("a table");
    let subject = bench.submitted("clean", "pending").await;
    let sql = "UPDATE public.attachments SET clamav_status = 'infected' WHERE id = $1";
    scanner.execute(sql, &[&subject.b]).await.expect("flipped");
    assert_eq!(bench.reasons(subject.id).await, ["scan_infected"]);
}

#[tokio::test]
async fn the_functions_are_nobodys_but_for_the_question() {
    let bench = Bench::new().await;
    bench
        .eyes
        .batch_execute("GRANT USAGE ON SCHEMA router TO forms_readonly, forms_scanner")
        .await
        .expect("granted");
    let question = "SELECT state FROM router.evaluate_routing_readiness(gen_random_uuid())";
    bench.backend.query(question, &[]).await.expect("the backend may ask");
    let others = [
        "await_lock(gen_random_uuid())",
        "ring()",
        "infection_is_told(gen_random_uuid())",
        "note_readiness(gen_random_uuid(), 'x', false)",
        "set_finalized_column(NULL)",
    ];
    for role in ["forms_readonly", "forms_scanner", "forms_app"] {
        let client = bench.db.client_as(role).await.expect(role);
        let asked = client.query(question, &[]).await;
        assert_eq!(asked.is_err(), role != "forms_app", "{role}");
        for other in others {
            let refused = client.query(&format!("SELECT router.{other}"), &[]).await.expect_err(other);
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{role} {other}");
        }
        if role != "forms_app" {
            let refused = client.query("SELECT FROM router.outbox", &[]).await.expect_err("the outbox");
            assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{role}");
        }
    }
    let forged = "SET search_path = public; CREATE TEMPORARY TABLE t (id uuid);
        CREATE TRIGGER t AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION router.on_submission('finalized')";
    bench.client(Scanner).await.batch_execute(forged).await.expect_err("no trigger of one's own");
}

#[tokio::test]
async fn the_daemons_role_has_what_it_needs_and_the_log_is_append_only() {
    let bench = Bench::new().await;
    let app = &bench.backend;
    let log = "INSERT INTO router.transitions (lifecycle, entity_id, from_state, to_state, command, actor, actor_type)
        VALUES ('outbox', '1', 'a', 'b', 'c', 'd', 'worker'), ('readiness', '1', 'a', 'b', 'c', 'd', 'worker')";
    app.batch_execute(log).await.expect("written");
    app.batch_execute("UPDATE router.transitions SET reason = 'x'").await.expect_err("nothing is rewritten");
    app.batch_execute("TRUNCATE router.transitions").await.expect_err("nor emptied");
    assert_eq!(app.execute("DELETE FROM router.transitions", &[]).await.expect("pruned"), 1, "its own part");
    let id = bench.submitted("clean", "clean").await.id;
    app.execute(
        "UPDATE router.outbox SET state = 'delivered', delivered_at = now() WHERE entity_id = $1",
        &[&id],
    )
    .await
    .expect("settled");
    app.execute("DELETE FROM router.outbox WHERE entity_id = $1", &[&id]).await.expect("pruned");
    for broken in [
        "state = 'delivering'",
        "state = 'delivered'",
        "lease_token = gen_random_uuid()",
        "leased_until = now()",
        "attempts = -1",
        "state = 'lost'",
    ] {
        let id = bench.submitted("clean", "clean").await.id;
        let sql = format!("UPDATE router.outbox SET {broken} WHERE entity_id = '{id}'");
        app.batch_execute(&sql).await.expect_err(broken);
    }
}

/// Under row-level security that binds the owner as well, a submission that waits for its scan would look ready.
#[tokio::test]
async fn forced_row_level_security_is_refused() {
    let (_, sql) = ROUTER.files.iter().find(|(stem, _)| *stem == "002_outbox").expect("the file");
    let back = include_str!("../../migrations/router/down/002_outbox.sql");
    for table in ["submissions", "attachments"] {
        let bench = Bench::new().await;
        let owner = bench.client(Owner).await;
        owner.batch_execute(back).await.expect("back");
        owner.batch_execute(&format!("ALTER TABLE {table} FORCE ROW LEVEL SECURITY")).await.expect("forced");
        let refused = owner.batch_execute(sql).await.expect_err("refused");
        let said = refused.as_db_error().expect("by the database");
        assert!(said.message().contains(&format!("may hide rows of {table}")), "{said}");
        owner
            .batch_execute(&format!("ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY"))
            .await
            .expect("unforced");
        owner.batch_execute(sql).await.expect("applied");
        let id = bench.submitted("clean", "clean").await.id;
        assert_eq!(bench.reasons(id).await, ["finalized"]);
    }
}

/// The way back leaves nothing of the files after the first, and what was there before.
#[tokio::test]
async fn the_way_back_leaves_nothing() {
    let bench = Bench::new().await;
    let owner = bench.client(Owner).await;
    owner.batch_execute("SELECT router.set_finalized_column('created_at')").await.expect("a column");
    let things = "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'router'::regnamespace
        UNION ALL SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'router'::regnamespace
        UNION ALL SELECT t.tgname::text FROM pg_trigger t WHERE t.tgname LIKE 'router%'
        UNION ALL SELECT i.indexname::text FROM pg_indexes i WHERE i.schemaname = 'public' AND i.indexname LIKE '%router%'
        UNION ALL SELECT p.policyname::text FROM pg_policies p WHERE p.schemaname = 'router' ORDER BY 1";
    for back in [
        include_str!("../../migrations/router/down/006_late_infection.sql"),
        include_str!("../../migrations/router/down/005_outbox_order.sql"),
        include_str!("../../migrations/router/down/004_grey_queue.sql"),
        include_str!("../../migrations/router/down/003_daemons.sql"),
        include_str!("../../migrations/router/down/002_outbox.sql"),
    ] {
        owner.batch_execute(back).await.expect("back");
    }
    let left: Vec<String> =
        bench.eyes.query(things, &[]).await.expect("things").iter().map(|row| row.get(0)).collect();
    let strangers: Vec<&String> = left
        .iter()
        .filter(|name| !["dead_letters", "pauses"].iter().any(|known| name.starts_with(known)))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert!(left.iter().any(|name| name == "dead_letters"), "{left:?}");
    bench.submitted("clean", "pending").await;
}

#[tokio::test]
async fn every_role_that_finalizes_or_scans_is_a_plain_one() {
    let bench = Bench::new().await;
    for role in [Backend, Scanner, Owner] {
        let sql = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = $1";
        let above: bool = bench.eyes.query_one(sql, &[&Role::name(role)]).await.expect("the role").get(0);
        assert!(!above, "{role:?}");
    }
}
