//! Begin (protocol §3): the write-ahead intent "about to send", fenced, and what it means when it is not possible.
//!
//! If we die after the commit, the deliveries with an intent are in doubt; if before, nothing was sent.

use uuid::Uuid;

use super::Store;
use super::writing::{Beginning, Writing, Written};
use crate::db::DbError;

pub use crate::routing::decide::draft::BeginAnswer;

impl Store {
    /// Records the intent of the open deliveries `keys` of one action, if the claim stands, all of them are open, and every
    /// attachment is clean at that moment (P6).
    ///
    /// # Errors
    /// [`DbError`]: unknown whether the intents stand; nothing was sent, so treat the claim as without them.
    /// [`DbError::Hidden`]: none stands, because attachments may be hidden.
    pub async fn begin(&self, id: Uuid, token: &str, keys: &[String]) -> Result<BeginAnswer, DbError> {
        self.begin_after(id, token, keys, None).await
    }

    /// [`Self::begin`]; `log_position` says how far the relay's log was read by then.
    ///
    /// # Errors
    /// The errors of [`Self::begin`].
    pub async fn begin_after(
        &self,
        id: Uuid,
        token: &str,
        keys: &[String],
        log_position: Option<&str>,
    ) -> Result<BeginAnswer, DbError> {
        let (token, log_position) = (token.to_owned(), log_position.map(str::to_owned));
        let beginning = Beginning { id, token, keys: keys.to_vec(), log_position };
        match self.write(Writing::Begin(beginning)).await? {
            Written::BeginAnswer(intent) => Ok(intent),
            Written::Hidden => Err(DbError::Hidden("attachments")),
            Written::Recorded(_) => Err(DbError::Shape("a begin was answered as a record".to_owned())),
        }
    }
}
