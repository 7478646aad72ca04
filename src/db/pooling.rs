//! Finds out whether a proxy that pools transactions stands before the database.
//!
//! Two connections ask in turn whose session they are on, with and without a transaction open. Where sessions are ours,
//! each stays on its own; where one is seen on two, or both on one, sessions are handed round. A proxy that happens to
//! give each its own for so long passes for none: what can be proven is that there is one. Reads only.

use tokio_postgres::SimpleQueryMessage;

use super::connector::Connector;
use super::error::DbError;
use crate::config::Pooling;

/// How often the two take turns. A quiet proxy gives itself away in the first turn, a busy one in any.
const TURNS: usize = 4;

/// A server process: its number, and the start of its server, since several servers may be behind one name.
const WHOSE: &str = "SELECT pg_backend_pid() || ' ' || pg_postmaster_start_time()";

/// What was found beside what the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// As it says; or sessions are ours, and it says nothing.
    AsSaid,
    /// A proxy that pools transactions, and it says nothing.
    Unsaid,
    /// A proxy that pools transactions, and it says that there is none.
    Contradicted,
}

impl Found {
    pub(super) fn of(said: Option<Pooling>, found: Pooling) -> Self {
        match (said, found) {
            (None, Pooling::Transaction) => Self::Unsaid,
            (Some(Pooling::Session), Pooling::Transaction) => Self::Contradicted,
            (_, Pooling::Session) | (Some(Pooling::Transaction), Pooling::Transaction) => Self::AsSaid,
        }
    }
}

/// Asks.
///
/// # Errors
/// What kept the database from answering.
pub(super) async fn find_out(connector: &Connector) -> Result<Pooling, DbError> {
    // Nothing is set on sessions that may be somebody else's.
    let ((one, _), (other, _)) = futures::try_join!(
        connector.open(Pooling::Transaction, None),
        connector.open(Pooling::Transaction, None)
    )?;
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
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

/// What follows from the sessions that each was on.
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
