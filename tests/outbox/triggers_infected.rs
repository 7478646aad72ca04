//! Infections: with an attachment that moves, after the event of one is gone, and taken back.

use super::Bench;
use super::Role::{Owner, Scanner};

/// The one it moves to was ready: it becomes infected by it, or nothing.
#[tokio::test]
async fn what_an_attachment_brings_along() {
    let bench = Bench::new().await;
    let owner = bench.client(Owner).await;
    for (status, expected) in
        [("pending", vec![]), ("clean", vec![]), ("infected", vec!["scan_infected".to_owned()])]
    {
        let (from, to) = (bench.submitted(status, "clean").await, bench.submitted("clean", "clean").await);
        bench.forget().await;
        let sql = "UPDATE attachments SET submission_id = $1 WHERE id = $2";
        owner.execute(sql, &[&to.id, &from.a]).await.expect("moved");
        assert_eq!(bench.reasons(to.id).await, expected, "{status}");
    }
}

/// A second event for an old infection is written only for a row that may be gone: better twice than never.
#[tokio::test]
async fn once_the_event_is_pruned_a_second_infection_is_announced() {
    let bench = Bench::new().await;
    let subject = bench.submitted("infected", "pending").await;
    bench.forget().await;
    let sql = format!("UPDATE attachments SET clamav_status = 'infected' WHERE id = '{}'", subject.b);
    bench.client(Scanner).await.batch_execute(&sql).await.expect("infected");
    assert_eq!(bench.reasons(subject.id).await, ["scan_infected"]);
}

#[tokio::test]
async fn an_infection_taken_back_leaves_a_line_of_the_log() {
    let bench = Bench::new().await;
    let subject = bench.submitted("infected", "infected").await;
    let scanner = bench.client(Scanner).await;
    let log = "SELECT from_state, to_state, command, actor FROM router.transitions
               WHERE lifecycle = 'readiness' AND entity_id = $1";
    for (attachment, lines) in [(subject.a, 0), (subject.b, 1)] {
        let sql = "UPDATE attachments SET clamav_status = 'pending' WHERE id = $1";
        scanner.execute(sql, &[&attachment]).await.expect("taken back");
        let rows = bench.eyes.query(log, &[&subject.id.to_string()]).await.expect("the log");
        assert_eq!(rows.len(), lines);
        let transitions: Vec<[String; 4]> =
            rows.iter().map(|row| std::array::from_fn(|column| row.get(column))).collect();
        assert!(transitions.iter().all(|row| *row == ["infected", "waiting", "take_back", "forms_scanner"]));
    }
}
