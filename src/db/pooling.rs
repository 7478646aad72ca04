//! Detects whether a proxy that pools transactions is in front of the database.
//!
//! Two connections ask in alternation for the session they are on, with and without a transaction open. Where sessions are
//! ours, each connection stays on its own; a session seen on two, or two on one, proves a shared pool. A proxy that happens
//! to give each its own for so long stays undetected: only its presence can be proved. Reads only.

use tokio_postgres::SimpleQueryMessage;

use super::connector::Connector;
use super::error::DbError;
use crate::config::Pooling;

/// Rounds of questions. A quiet proxy shows in the first round, a busy one in any.
const ROUNDS: usize = 4;

/// A server process: its number, and the start of its server, since several servers may be behind one name.
const WHOSE: &str = "SELECT pg_backend_pid() || ' ' || pg_postmaster_start_time()";

/// The detected pooling compared with the configured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolingCheck {
    /// Both agree; or sessions are ours, and the configuration is silent.
    AsSaid,
    /// A proxy pools transactions, and the configuration is silent.
    Unsaid,
    /// A proxy pools transactions, and the configuration denies it.
    Contradicted,
}

impl PoolingCheck {
    pub(super) fn of(said: Option<Pooling>, found: Pooling) -> Self {
        match (said, found) {
            (None, Pooling::Transaction) => Self::Unsaid,
            (Some(Pooling::Session), Pooling::Transaction) => Self::Contradicted,
            (_, Pooling::Session) | (Some(Pooling::Transaction), Pooling::Transaction) => Self::AsSaid,
        }
    }
}

/// Asks the database through two connections.
///
/// # Errors
/// The error that kept the database from answering.
pub(super) async fn find_out(connector: &Connector) -> Result<Pooling, DbError> {
    // No setting is changed on sessions that may be another client's.
    let ((one, _), (other, _)) = futures::try_join!(
        connector.open(Pooling::Transaction, None),
        connector.open(Pooling::Transaction, None)
    )?;
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ones.push(whose(&one, WHOSE).await?);
        others.push(whose(&other, WHOSE).await?);
        ones.push(whose(&one, &format!("BEGIN; {WHOSE}")).await?);
        others.push(whose(&other, WHOSE).await?);
        one.batch_execute("COMMIT").await?;
    }
    Ok(judge(&ones, &others))
}

async fn whose(client: &tokio_postgres::Client, sql: &str) -> Result<String, DbError> {
    let said = client.simple_query(sql).await?;
    let row = said
        .iter()
        .find_map(|message| if let SimpleQueryMessage::Row(row) = message { row.get(0) } else { None });
    row.map(str::to_owned).ok_or_else(|| DbError::Shape("no row says whose session this is".to_owned()))
}

/// Returns the conclusion from the sessions of both connections.
fn judge(ones: &[String], others: &[String]) -> Pooling {
    let stays = |seen: &[String]| seen.windows(2).all(|pair| pair[0] == pair[1]);
    let apart = ones.iter().all(|session| !others.contains(session));
    if stays(ones) && stays(others) && apart { Pooling::Session } else { Pooling::Transaction }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_are_handed_round_are_nobodys() {
        let table: [(&[&str], &[&str], Pooling); 5] = [
            (&["a", "a", "a"], &["b", "b", "b"], Pooling::Session),
            (&["a", "a"], &["a", "a"], Pooling::Transaction),
            (&["a", "a"], &["b", "a"], Pooling::Transaction),
            (&["a", "c"], &["b", "b"], Pooling::Transaction),
            (&["a", "a"], &["b", "c"], Pooling::Transaction),
        ];
        let owned = |seen: &[&str]| seen.iter().map(|session| (*session).to_owned()).collect::<Vec<_>>();
        for (ones, others, pooling) in table {
            assert_eq!(judge(&owned(ones), &owned(others)), pooling, "{ones:?} {others:?}");
        }
    }
}
