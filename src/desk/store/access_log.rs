//! Who was shown what people wrote. Appended in the transaction that reads it, so that nothing is shown of which there is no
//! record; nobody may change or delete a row.

use uuid::Uuid;

use crate::db::{DbError, Transaction};
use crate::kernel::words;

words! {
    /// What was shown.
    What {
        /// The text of a mail.
        Mail = "mail",
        /// Addresses in full.
        Recipients = "recipients",
        /// Values of fields.
        Fields = "fields",
        /// Signed links to attachments.
        Links = "links",
        /// The payload of a dead letter.
        DeadLetter = "dead_letter",
    }
}

/// `$1` user, `$2` submission, `$3` what.
const APPEND: &str = "-- desk_access_log_append
INSERT INTO router.desk_access_log (user_name, submission_id, what) VALUES ($1, $2, $3)";

/// Records that `user` is shown something of `submission`; of a dead letter without one, or of a form's version, the id of its
/// record.
///
/// # Errors
/// [`DbError`]; then nothing may be shown.
pub async fn append(tx: &Transaction, user: &str, submission: Uuid, what: What) -> Result<(), DbError> {
    tx.execute(&tx.prepare_cached(APPEND).await?, &[&user, &submission, &what.label()]).await?;
    Ok(())
}
