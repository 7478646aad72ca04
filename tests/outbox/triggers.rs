//! Causes of becoming ready or infected: one event each, written in the transaction of the change.

use super::Role::{Backend, Owner, Scanner};
use super::{Bench, Role, Subject};

/// Statuses of the two attachments at finalize; what is done then, each line a transaction; the reasons in its events.
type Case = (&'static str, [&'static str; 2], &'static [(Role, &'static str)], &'static [&'static str]);

const PENDING: [&str; 2] = ["pending", "pending"];
const ONE_LEFT: [&str; 2] = ["clean", "pending"];
const CLEAN: [&str; 2] = ["clean", "clean"];
const INFECTED: [&str; 2] = ["infected", "clean"];

const A_CLEAN: &str = "UPDATE attachments SET clamav_status = 'clean' WHERE id = {a};";
const B_CLEAN: &str = "UPDATE attachments SET clamav_status = 'clean' WHERE id = {b};";
const A_INFECTED: &str = "UPDATE attachments SET clamav_status = 'infected' WHERE id = {a};";
const B_INFECTED: &str = "UPDATE attachments SET clamav_status = 'infected' WHERE id = {b};";
const A_PENDING: &str = "UPDATE attachments SET clamav_status = 'pending' WHERE id = {a};";

/// Every line names by `{s}`, `{a}`, `{b}` the submission and its attachments, by `{t}` another one, ready long ago.
const CASES: &[Case] = &[
    ("clean at finalize", CLEAN, &[], &["finalized"]),
    ("infected at finalize", INFECTED, &[], &["scan_infected"]),
    ("something left at finalize", ONE_LEFT, &[], &[]),
    ("the first of two", PENDING, &[(Scanner, A_CLEAN)], &[]),
    ("one after the other", PENDING, &[(Scanner, A_CLEAN), (Scanner, B_CLEAN)], &["scan_clean"]),
    ("the last one, by the backend", ONE_LEFT, &[(Backend, B_CLEAN)], &["scan_clean"]),
    (
        "both in one statement",
        PENDING,
        &[(Scanner, "UPDATE attachments SET clamav_status = 'clean' WHERE submission_id = {s}")],
        &["scan_clean"],
    ),
    ("both in one transaction", PENDING, &[(Scanner, "{A_CLEAN}{B_CLEAN}")], &["scan_clean"]),
    (
        "to and fro in one transaction",
        ONE_LEFT,
        &[(Scanner, "{B_CLEAN} UPDATE attachments SET clamav_status = 'pending' WHERE id = {b}; {B_CLEAN}")],
        &["scan_clean"],
    ),
    (
        "to and back in one transaction",
        ONE_LEFT,
        &[(Scanner, "{B_CLEAN} UPDATE attachments SET clamav_status = 'pending' WHERE id = {b};")],
        &[],
    ),
    (
        "in savepoints",
        PENDING,
        &[(Scanner, "SAVEPOINT x; {A_CLEAN} RELEASE x; SAVEPOINT y; {B_CLEAN} RELEASE y;")],
        &["scan_clean"],
    ),
    (
        "in a savepoint that is rolled back",
        ONE_LEFT,
        &[(Scanner, "SAVEPOINT x; {B_CLEAN} ROLLBACK TO x;")],
        &[],
    ),
    (
        "rolled back to, and done again",
        ONE_LEFT,
        &[(Scanner, "SAVEPOINT x; {B_CLEAN} ROLLBACK TO x; {B_CLEAN}")],
        &["scan_clean"],
    ),
    ("rolled back", ONE_LEFT, &[(Scanner, "{B_CLEAN} ROLLBACK; BEGIN")], &[]),
    (
        "rolled back, then done",
        ONE_LEFT,
        &[(Scanner, "{B_CLEAN} ROLLBACK; BEGIN"), (Scanner, B_CLEAN)],
        &["scan_clean"],
    ),
    (
        "constraints immediate",
        ONE_LEFT,
        &[(Scanner, "SET CONSTRAINTS ALL IMMEDIATE; {B_CLEAN}")],
        &["scan_clean"],
    ),
    (
        "immediate, in a savepoint rolled back",
        ONE_LEFT,
        &[(Scanner, "SAVEPOINT x; SET CONSTRAINTS ALL IMMEDIATE; {B_CLEAN} ROLLBACK TO x; {B_CLEAN}")],
        &["scan_clean"],
    ),
    (
        "immediate in the middle",
        PENDING,
        &[(Scanner, "{A_CLEAN} SET CONSTRAINTS ALL IMMEDIATE; {B_CLEAN} {A_PENDING} {A_CLEAN}")],
        &["scan_clean"],
    ),
    ("written again as it was", CLEAN, &[(Scanner, A_CLEAN)], &["finalized"]),
    (
        "something else about it",
        CLEAN,
        &[(
            Backend,
            "UPDATE attachments SET file_name = 'x' WHERE id = {a}; UPDATE submissions SET updated_at = now() WHERE id = {s}",
        )],
        &["finalized"],
    ),
    (
        "an attachment that comes late",
        CLEAN,
        &[(
            Backend,
            "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object) VALUES ({s}, 'l', 'b', 'o')",
        )],
        &["finalized"],
    ),
    (
        "looked at again and found clean again",
        CLEAN,
        &[(Scanner, A_PENDING), (Scanner, A_CLEAN)],
        &["finalized", "scan_clean"],
    ),
    // infected
    ("infected", PENDING, &[(Scanner, A_INFECTED)], &["scan_infected"]),
    (
        "two infected in two transactions",
        PENDING,
        &[(Scanner, A_INFECTED), (Scanner, B_INFECTED)],
        &["scan_infected"],
    ),
    ("two infected in one", PENDING, &[(Scanner, "{A_INFECTED}{B_INFECTED}")], &["scan_infected"]),
    ("infected, the other clean", PENDING, &[(Scanner, A_INFECTED), (Scanner, B_CLEAN)], &["scan_infected"]),
    (
        "infected, taken back, infected",
        PENDING,
        &[(Scanner, A_INFECTED), (Scanner, A_PENDING), (Scanner, A_INFECTED)],
        &["scan_infected", "scan_infected"],
    ),
    (
        "infected from the start, taken back, infected",
        INFECTED,
        &[(Scanner, A_PENDING), (Scanner, A_INFECTED)],
        &["scan_infected", "scan_infected"],
    ),
    (
        "to and back and infected in one",
        PENDING,
        &[(Scanner, "{A_INFECTED}{A_PENDING}{A_INFECTED}")],
        &["scan_infected"],
    ),
    (
        "taken back and infected again in one",
        PENDING,
        &[(Scanner, A_INFECTED), (Scanner, "{A_PENDING}{A_INFECTED}")],
        &["scan_infected"],
    ),
    (
        "one taken back, the other not",
        PENDING,
        &[(Scanner, "{A_INFECTED}{B_INFECTED}"), (Scanner, A_PENDING), (Scanner, A_INFECTED)],
        &["scan_infected"],
    ),
    (
        "infected, then clean",
        PENDING,
        &[(Scanner, "{A_INFECTED}{B_CLEAN}"), (Scanner, A_CLEAN)],
        &["scan_infected", "scan_clean"],
    ),
    ("infected and clean in one", ONE_LEFT, &[(Scanner, "{B_INFECTED}{B_CLEAN}")], &["scan_clean"]),
    ("clean, then infected", CLEAN, &[(Scanner, A_INFECTED)], &["finalized", "scan_infected"]),
    (
        "an infected one comes",
        CLEAN,
        &[(
            Backend,
            "INSERT INTO attachments (submission_id, file_name, gcs_bucket, gcs_object, clamav_status) VALUES ({s}, 'l', 'b', 'o', 'infected')",
        )],
        &["finalized", "scan_infected"],
    ),
    (
        "infected, and failed by the scanner in the same transaction",
        PENDING,
        &[(Scanner, "{A_INFECTED} UPDATE submissions SET status = 'failed' WHERE id = {s}")],
        &[],
    ),
    // gone
    (
        "the last one left is deleted",
        ONE_LEFT,
        &[(Owner, "DELETE FROM attachments WHERE id = {b}")],
        &["scan_clean"],
    ),
    ("one of two left is deleted", PENDING, &[(Owner, "DELETE FROM attachments WHERE id = {b}")], &[]),
    (
        "both left are deleted",
        PENDING,
        &[(Owner, "DELETE FROM attachments WHERE submission_id = {s}")],
        &["scan_clean"],
    ),
    ("a clean one is deleted", CLEAN, &[(Owner, "DELETE FROM attachments WHERE id = {b}")], &["finalized"]),
    (
        "the infected one is deleted",
        INFECTED,
        &[(Owner, "DELETE FROM attachments WHERE id = {a}")],
        &["scan_infected", "scan_clean"],
    ),
    (
        "the last one left moves away",
        ONE_LEFT,
        &[(Owner, "UPDATE attachments SET submission_id = {t} WHERE id = {b}")],
        &["scan_clean"],
    ),
    (
        "a clean one moves away",
        CLEAN,
        &[(Owner, "UPDATE attachments SET submission_id = {t} WHERE id = {b}")],
        &["finalized"],
    ),
    (
        "the infected one moves away",
        INFECTED,
        &[(Owner, "UPDATE attachments SET submission_id = {t} WHERE id = {a}")],
        &["scan_infected", "scan_clean"],
    ),
    (
        "moves away and becomes clean at once",
        ONE_LEFT,
        &[(Owner, "UPDATE attachments SET submission_id = {t}, clamav_status = 'clean' WHERE id = {b}")],
        &["scan_clean"],
    ),
    ("everything is deleted", PENDING, &[(Owner, "DELETE FROM submissions WHERE id = {s}")], &[]),
    (
        "everything is deleted, and was infected",
        INFECTED,
        &[(Owner, "DELETE FROM submissions WHERE id = {s}")],
        &["scan_infected"],
    ),
    // status
    (
        "replayed after a failure",
        CLEAN,
        &[
            (Backend, "UPDATE submissions SET status = 'failed' WHERE id = {s}"),
            (Backend, "UPDATE submissions SET status = 'received' WHERE id = {s}"),
        ],
        &["finalized", "replayed"],
    ),
    (
        "replayed after a success",
        CLEAN,
        &[
            (Backend, "UPDATE submissions SET status = 'routed' WHERE id = {s}"),
            (Backend, "UPDATE submissions SET status = 'received' WHERE id = {s}"),
        ],
        &["finalized", "replayed"],
    ),
    (
        "replayed while infected",
        INFECTED,
        &[
            (Backend, "UPDATE submissions SET status = 'failed' WHERE id = {s}"),
            (Backend, "UPDATE submissions SET status = 'received' WHERE id = {s}"),
        ],
        &["scan_infected", "scan_infected"],
    ),
    (
        "replayed while something is left",
        ONE_LEFT,
        &[
            (Backend, "UPDATE submissions SET status = 'failed' WHERE id = {s}"),
            (Backend, "UPDATE submissions SET status = 'received' WHERE id = {s}"),
            (Scanner, B_CLEAN),
        ],
        &["scan_clean"],
    ),
    (
        "released",
        CLEAN,
        &[
            (Backend, "UPDATE submissions SET status = 'processing' WHERE id = {s}"),
            (Backend, "UPDATE submissions SET status = 'received' WHERE id = {s}"),
        ],
        &["finalized"],
    ),
    (
        "while it is processed",
        ONE_LEFT,
        &[(Backend, "UPDATE submissions SET status = 'processing' WHERE id = {s}"), (Scanner, B_CLEAN)],
        &[],
    ),
    (
        "infected while it is processed",
        CLEAN,
        &[(Backend, "UPDATE submissions SET status = 'processing' WHERE id = {s}"), (Scanner, A_INFECTED)],
        &["finalized"],
    ),
    (
        "purged, then scanned",
        ONE_LEFT,
        &[(Backend, "UPDATE submissions SET status = 'purged' WHERE id = {s}"), (Scanner, B_CLEAN)],
        &[],
    ),
    (
        "purged, then its attachments deleted",
        ONE_LEFT,
        &[
            (Backend, "UPDATE submissions SET status = 'purged' WHERE id = {s}"),
            (Owner, "DELETE FROM attachments WHERE submission_id = {s}"),
        ],
        &[],
    ),
    (
        "closed in the transaction that scans",
        ONE_LEFT,
        &[(Scanner, "{B_CLEAN} UPDATE submissions SET status = 'failed' WHERE id = {s}")],
        &[],
    ),
];

/// `sql` with its names filled in.
fn filled(sql: &str, subject: Subject, other: Subject) -> String {
    let mut text = sql.to_owned();
    for (name, value) in [
        ("{A_CLEAN}", A_CLEAN),
        ("{B_CLEAN}", B_CLEAN),
        ("{A_INFECTED}", A_INFECTED),
        ("{B_INFECTED}", B_INFECTED),
        ("{A_PENDING}", A_PENDING),
    ] {
        text = text.replace(name, value);
    }
    for (name, id) in [("{s}", subject.id), ("{a}", subject.a), ("{b}", subject.b), ("{t}", other.id)] {
        text = text.replace(name, &format!("'{id}'"));
    }
    text
}

#[tokio::test]
async fn what_becomes_ready_or_infected_is_announced_once() {
    let bench = Bench::new().await;
    let scanner = bench.client(Scanner).await;
    let owner = bench.client(Owner).await;
    let mut wrong = Vec::new();
    for (what, statuses, steps, expected) in CASES {
        let other = bench.submitted("clean", "clean").await;
        let subject = bench.submitted(statuses[0], statuses[1]).await;
        for (role, sql) in *steps {
            let client = match role {
                Backend => &bench.backend,
                Scanner => &scanner,
                Owner => &owner,
            };
            let sql = format!("BEGIN; {}; COMMIT", filled(sql, subject, other));
            client.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{what}: {sql}: {error:?}"));
        }
        let reasons = bench.reasons(subject.id).await;
        if reasons != *expected {
            wrong.push(format!("{what}: {reasons:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn copy_is_an_insert_as_well() {
    use bytes::Bytes;
    use futures::SinkExt as _;
    let bench = Bench::new().await;
    // Row-level security lets only those copy whom it does not bind.
    let loader = bench.client(Owner).await;
    let (ready, waiting) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    loader.batch_execute("BEGIN").await.expect("begun");
    for (into, lines) in [
        ("submissions (id, form_id)", format!("{ready}\tf\n{waiting}\tf\n")),
        ("attachments (submission_id, file_name, gcs_bucket, gcs_object)", format!("{waiting}\tn\tb\to\n")),
    ] {
        let sink = loader.copy_in(&format!("COPY {into} FROM STDIN")).await.expect("copying");
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from(lines)).await.expect("sent");
        sink.finish().await.expect("copied");
    }
    loader.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(bench.reasons(ready).await, ["finalized"]);
    assert!(bench.reasons(waiting).await.is_empty());
}

/// Rows that are gone are not waited for.
#[tokio::test]
async fn what_is_gone_is_not_waited_for() {
    let bench = Bench::new().await;
    let subject = bench.submitted("pending", "pending").await;
    let owner = bench.client(Owner).await;
    owner.batch_execute("BEGIN; SET CONSTRAINTS ALL IMMEDIATE").await.expect("begun");
    owner.execute("DELETE FROM submissions WHERE id = $1", &[&subject.id]).await.expect("deleted");
    let sql = "SELECT COALESCE(current_setting('maple_router.waited', true), '')";
    assert_eq!(owner.query_one(sql, &[]).await.expect("asked").get::<_, String>(0), "");
    owner.batch_execute("COMMIT").await.expect("committed");
}
