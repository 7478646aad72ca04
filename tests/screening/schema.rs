//! The schema itself: applied and taken back beside schema router, edges, approvals, publications.

use devkit::postgres::{Cluster, Variant};
use maple_router::db::migrations::online::{self, Patience};
use maple_router::db::migrations::{MigrateError, SCREENING};
use tokio_postgres::Client;

use crate::harness::Scene;

fn silent(_: &str) {}

/// What stands in the schemas: functions with their rights and bodies, triggers, causes.
async fn standing(client: &Client) -> Vec<String> {
    let sql = "SELECT p.oid::regprocedure::text || ' ' || COALESCE(p.proacl::text, '-') || ' ' || md5(p.prosrc) FROM pg_proc p
         WHERE p.pronamespace = to_regnamespace('router')
       UNION ALL SELECT t.tgrelid::regclass::text || ' ' || t.tgname || ' ' || t.tgenabled::text FROM pg_trigger t
         WHERE t.tgrelid IN ('public.submissions'::regclass, 'public.attachments'::regclass) AND NOT t.tgisinternal
       UNION ALL SELECT 'cause ' || cause FROM router.grey_queue_causes ORDER BY 1";
    client.query(sql, &[]).await.expect("looked").iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn it_is_applied_and_taken_back_and_leaves_the_rest_as_it_was() {
    let cluster = Cluster::shared().await.expect("a cluster");
    let bare = cluster.database(Variant::default()).await.expect("a database");
    let mut owner = bare.owner().await.expect("the owner");
    let patience = Patience::default();
    let refused = online::migrate_upper(&mut owner, &SCREENING, patience, &silent)
        .await
        .expect_err("nothing to stand on");
    assert!(matches!(refused, MigrateError::Foundation { name: "screening" }), "{refused}");
    let db = cluster.database(Variant { router: true, ..Variant::default() }).await.expect("a database");
    let mut owner = db.owner().await.expect("the owner");
    let before = standing(&owner).await;
    let applied = online::migrate_upper(&mut owner, &SCREENING, patience, &silent).await.expect("applied");
    assert_eq!(applied.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["001_screening"]);
    assert!(
        online::migrate_upper(&mut owner, &SCREENING, patience, &silent).await.expect("again").is_empty()
    );
    let mid = standing(&owner).await;
    assert_ne!(before, mid);
    online::back_upper(&mut owner, &SCREENING, "001", patience, &silent).await.expect("taken back");
    assert_eq!(standing(&owner).await, before);
    let sql = "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('screening') AND relkind IN ('r', 'v', 'S')
                 AND relname <> 'history') + (SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace('screening'))";
    let left: i64 = owner.query_one(sql, &[]).await.expect("asked").get(0);
    assert_eq!(left, 0, "nothing but its history stays");
    online::migrate_upper(&mut owner, &SCREENING, patience, &silent).await.expect("forth again");
    assert_eq!(standing(&owner).await, mid);
}

#[tokio::test]
async fn no_edge_leads_where_the_table_has_none_and_no_machine_takes_a_persons() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    let states = [
        "RECEIVED",
        "VENDOR_APPROVED",
        "TIER1_SCANNING",
        "TIER1_FAILED",
        "TIER2_SCANNING",
        "AUTO_APPROVED",
        "NEEDS_REVIEW",
        "TIER3_REVIEW",
        "PUBLISHED",
        "REJECTED",
    ];
    let machine = [
        ("RECEIVED", "VENDOR_APPROVED"),
        ("RECEIVED", "TIER1_SCANNING"),
        ("TIER1_SCANNING", "TIER2_SCANNING"),
        ("TIER1_SCANNING", "TIER1_FAILED"),
        ("TIER2_SCANNING", "AUTO_APPROVED"),
        ("TIER2_SCANNING", "NEEDS_REVIEW"),
        ("TIER2_SCANNING", "REJECTED"),
        ("AUTO_APPROVED", "PUBLISHED"),
        ("VENDOR_APPROVED", "PUBLISHED"),
    ];
    scene
        .sql(&format!(
            "INSERT INTO screening.scan_results (submission_id, job_type, attempt, content, ruleset, verdict, score)
             SELECT id, 'tier2-scan', 1, screening.digest_of(subject), 'abc', 'pass', 90 FROM screening.submissions WHERE id = '{run}'"
        ))
        .await;
    let mut taken = 0;
    for from in states {
        for to in states.iter().filter(|to| **to != from) {
            scene.put(run, from).await;
            let sql = format!(
                "BEGIN; UPDATE screening.submissions SET state = '{to}', origin = 'x', score = 90 WHERE id = '{run}'; ROLLBACK"
            );
            let answer = scene.as_role("maple_screener", &sql).await;
            let allowed = machine.contains(&(from, to));
            assert_eq!(answer.is_none(), allowed, "{from} -> {to}: {answer:?}");
            taken += usize::from(allowed);
        }
    }
    assert_eq!(taken, machine.len());
    scene.put(run, "TIER3_REVIEW").await;
    let refused = scene
        .as_role(
            "maple_screener",
            &format!("UPDATE screening.submissions SET state = 'PUBLISHED' WHERE id = '{run}'"),
        )
        .await
        .expect("refused");
    assert!(refused.starts_with("42501"), "{refused}");
}

#[tokio::test]
async fn nothing_is_approved_without_a_verdict_with_a_bar_or_without_an_origin() {
    let scene = Scene::new().await;
    let on = scene.submit("on", "a").await;
    let run = scene.run_of(on).await;
    let approve = |set: &str| {
        format!(
            "BEGIN; UPDATE screening.submissions SET state = 'AUTO_APPROVED'{set} WHERE id = '{run}'; ROLLBACK"
        )
    };
    scene.put(run, "TIER2_SCANNING").await;
    for (set, why) in
        [("", "no score"), (", score = 79", "too low"), (", score = 90", "a score that no verdict has")]
    {
        assert!(scene.as_role("maple_screener", &approve(set)).await.is_some(), "{why}");
    }
    scene
        .sql(&format!(
            "INSERT INTO screening.scan_results (submission_id, job_type, attempt, content, ruleset, verdict, score)
             SELECT id, 'tier2-scan', 1, content, 'abc', 'pass', 90 FROM screening.submissions WHERE id = '{run}'"
        ))
        .await;
    assert_eq!(scene.as_role("maple_screener", &approve(", score = 90")).await, None);
    let barred = scene.as_role("maple_screener", &approve(", score = 90, bars = '{high_privilege}'")).await;
    assert!(barred.is_some(), "a bar passes nothing alone");
    scene.put(run, "RECEIVED").await;
    let vendor = format!("UPDATE screening.submissions SET state = 'VENDOR_APPROVED' WHERE id = '{run}'");
    assert!(scene.as_role("maple_screener", &vendor).await.is_some(), "no origin was proven");
    // Published is what was screened.
    scene.put(run, "AUTO_APPROVED").await;
    scene.sql(&format!("UPDATE submission_fields SET field_value = 'x' WHERE submission_id = '{on}'")).await;
    let publish = format!("UPDATE screening.submissions SET state = 'PUBLISHED' WHERE id = '{run}'");
    let changed = scene.as_role("maple_screener", &publish).await.expect("refused");
    assert!(changed.contains("is not what was screened"), "{changed}");
}

#[tokio::test]
async fn a_calibration_approves_only_what_its_figures_allow() {
    let scene = Scene::new().await;
    let keep = |items: i32, harmless: i32, answered: i32, wrong: i32| {
        format!(
            "BEGIN; INSERT INTO screening.calibrations (profile, model, prompt, items, harmless, answered, false_approvals, approves, actor)
             VALUES ('fields', 'm', 'p', {items}, {harmless}, {answered}, {wrong}, true, 'x'); ROLLBACK"
        )
    };
    assert_eq!(scene.as_role("forms_loader", &keep(140, 70, 140, 1)).await, None);
    for (sql, why) in [
        (keep(118, 59, 118, 0), "too few"),
        (keep(140, 69, 140, 0), "not half of them harmless"),
        (keep(140, 70, 139, 0), "one was not answered"),
        (keep(140, 70, 140, 2), "two of seventy would have been approved"),
    ] {
        assert!(scene.as_role("forms_loader", &sql).await.is_some(), "{why}");
    }
    assert!(
        scene.as_role("maple_screener", &keep(140, 70, 140, 0)).await.is_some(),
        "it may not calibrate itself"
    );
}

#[tokio::test]
async fn versions_of_a_skill_rise_by_its_own_word_or_by_a_patch() {
    let scene = Scene::new().await;
    let next = async |declared: &str| -> String {
        scene.one(&format!("SELECT screening.next_version('sk_0123456789abcdef', {declared})")).await
    };
    assert_eq!(next("NULL").await, "1.0.0");
    assert_eq!(next("'2.10.0'").await, "2.10.0");
    let on = scene.submit("git", "a").await;
    let run = scene.run_of(on).await;
    scene
        .sql(&format!(
            "INSERT INTO screening.published (skill_id, version, submission_id, url, path, commit, content)
             VALUES ('sk_0123456789abcdef', '2.9.3', '{run}', 'u', '', 'c', 'd')"
        ))
        .await;
    assert_eq!(next("NULL").await, "2.9.4");
    assert_eq!(next("'2.10.0'").await, "2.10.0", "compared as numbers");
    assert_eq!(next("'2.9.3'").await, "2.9.4");
    assert_eq!(next("'1.99.99'").await, "2.9.4");
}
