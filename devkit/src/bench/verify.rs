//! Whether a trial counts: every row routed, one audit row each, as many mails as there must be, every event settled.

use std::time::Duration;

use anyhow::Result;

use super::arena::Trial;
use super::contestant::Contestant;
use crate::stage::Source;

/// Longest time for the last acks.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(50);

/// Waits until no event is left; returns how many were settled, in words of what is missing otherwise.
pub(super) async fn settled(trial: &Trial, contestant: Contestant) -> Result<usize> {
    let mut settled = 0;
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        settled = match contestant {
            Contestant::Router
            | Contestant::RouterPostgres
            | Contestant::RouterPooled
            | Contestant::Python => usize::try_from(trial.stage.events().await?.acked)?,
            Contestant::GraphileJs | Contestant::GraphileRs | Contestant::GraphileRsNodelay => {
                let left: i64 =
                    trial.superuser.query_one("SELECT count(*) FROM graphile_worker.jobs", &[]).await?.get(0);
                trial.ids.len().saturating_sub(usize::try_from(left)?)
            }
        };
        if settled >= trial.ids.len() {
            break;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(settled)
}

/// Violations.
pub(super) async fn trial(trial: &Trial, contestant: Contestant, settled: usize) -> Result<Vec<String>> {
    let mut wrong = rows(trial, contestant.is_router()).await?;
    let n = trial.ids.len();
    let mut must = |what: &str, found: usize, expected: usize| {
        if found != expected {
            wrong.push(format!("{what}: {found}, not {expected}"));
        }
    };
    must("mails", trial.receiver.taken(trial.mails()).await?, trial.mails());
    // An event that came twice may be settled twice.
    must("events settled", settled.min(n), n);
    if contestant.source() == Source::Pubsub {
        let stats = trial.stage.events().await?;
        must("events left", stats.backlog + stats.outstanding, 0);
    }
    Ok(wrong)
}

/// Events that were handed out more than once: more work, not wrong work.
pub(super) async fn redelivered(trial: &Trial, contestant: Contestant) -> Result<usize> {
    if contestant.source() != Source::Pubsub {
        return Ok(0);
    }
    Ok(usize::try_from(trial.stage.events().await?.delivered)?.saturating_sub(trial.ids.len()))
}

/// Violations in the database. The router's audit has a row for each recipient, the others' for each action, as the
/// design document has it.
pub(super) async fn rows(trial: &Trial, by_recipient: bool) -> Result<Vec<String>> {
    let n = trial.ids.len();
    let sent = n * trial.shape.mails() * if by_recipient { trial.shape.recipients() } else { 1 };
    let expected = [
        ("rows routed", "SELECT count(*) FROM submissions WHERE status = 'routed'", n),
        ("rows ended in the audit", "SELECT count(*) FROM audit_log WHERE action = 'submission_routed'", n),
        (
            "of these, different ones",
            "SELECT count(DISTINCT submission_id) FROM audit_log WHERE action = 'submission_routed'",
            n,
        ),
        ("mails in the audit", "SELECT count(*) FROM audit_log WHERE action = 'email_sent'", sent),
        ("failures in the audit", "SELECT count(*) FROM audit_log WHERE action = 'email_failed'", 0),
    ];
    let mut wrong = Vec::new();
    for (what, sql, expected) in expected {
        let found: i64 = trial.superuser.query_one(sql, &[]).await?.get(0);
        if usize::try_from(found)? != expected {
            wrong.push(format!("{what}: {found}, not {expected}"));
        }
    }
    Ok(wrong)
}
