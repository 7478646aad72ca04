//! Begin (protocol §3): the write-ahead mark "about to send", fenced, and what it means when it is not possible.
//!
//! If we die after the commit, the marked deliveries are in doubt; if before, nothing was sent.

use uuid::Uuid;

use super::Store;
use super::held::Held;
use super::writing::{Writing, Written};
use crate::db::DbError;
use crate::routing::draft::{Attachments, Change};

pub use crate::routing::draft::Begun;

/// The marks of one action.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) id: Uuid,
    token: String,
    keys: Vec<String>,
    log_mark: Option<String>,
}

impl Store {
    /// Marks the open deliveries `keys` of one action as begun, if the claim stands, all of them are open, and every
    /// attachment is clean at that moment (P6).
    ///
    /// # Errors
    /// [`DbError`]: unknown whether the marks stand; nothing was sent, so treat the claim as not begun. [`DbError::Hidden`]:
    /// they do not, because attachments may be hidden.
    pub async fn begin(&self, id: Uuid, token: &str, keys: &[String]) -> Result<Begun, DbError> {
        self.begin_after(id, token, keys, None).await
    }

    /// The same; `log_mark` says what of the relay's log was read by then.
    ///
    /// # Errors
    /// Those of [`Self::begin`].
    pub async fn begin_after(
        &self,
        id: Uuid,
        token: &str,
        keys: &[String],
        log_mark: Option<&str>,
    ) -> Result<Begun, DbError> {
        let (token, log_mark) = (token.to_owned(), log_mark.map(str::to_owned));
        let beginning = Beginning { id, token, keys: keys.to_vec(), log_mark };
        match self.write(Writing::Begin(beginning)).await? {
            Written::Begun(begun) => Ok(begun),
            Written::Hidden => Err(DbError::Hidden("attachments")),
            Written::Recorded(_) => Err(DbError::Shape("a begin was answered as a record".to_owned())),
        }
    }
}

impl Beginning {
    /// What a row under its lock allows, and what is written then. Where attachments may be hidden that is an answer of
    /// its own and no error: others share the transaction.
    pub(super) fn decide(&self, held: &mut Held) -> Result<(Written, Option<Change>), DbError> {
        let (Some(mut draft), Some(row)) = (held.draft(self.id)?, held.row(self.id)) else {
            return Ok((Written::Begun(Begun::Stale), None));
        };
        if !row.try_get::<_, bool>("visible")? {
            return Ok((Written::Hidden, None));
        }
        let attachments =
            Attachments { pending: row.try_get("pending")?, infected: row.try_get("infected")? };
        let begun = draft.begin(&self.token, &self.keys, self.log_mark.as_deref(), attachments);
        Ok((Written::Begun(begun), Some(draft.into_change())))
    }
}
