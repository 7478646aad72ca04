//! Input of a benchmark: forms, submissions, and their expected results. The same ids in every trial.
//!
//! Submissions are written at once and without the outbox's triggers: the trial itself releases their events
//! (`contestant`), so that no contestant starts before the clock does.

use std::fmt;

use anyhow::Result;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::forms::Form;

/// The form of every submission.
pub(super) const FORM: &str = "bench";

/// Form of one submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// One action, one recipient.
    One,
    /// Three actions, two recipients each.
    Many,
    /// One action, and two attachments that are mailed as signed links.
    Links,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "one",
            Self::Many => "many",
            Self::Links => "links",
        })
    }
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 3] = [Self::One, Self::Many, Self::Links];

    /// The shape in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::One => "one action, one recipient",
            Self::Many => "three actions, two recipients each",
            Self::Links => "one action, two attachments as signed links",
        }
    }

    /// Mails of one submission.
    pub(super) fn mails(self) -> usize {
        match self {
            Self::One | Self::Links => 1,
            Self::Many => 3,
        }
    }

    /// Recipients of one mail.
    pub(super) fn recipients(self) -> usize {
        match self {
            Self::One | Self::Links => 1,
            Self::Many => 2,
        }
    }

    /// Attachments of one submission.
    pub(super) fn attachments(self) -> i32 {
        match self {
            Self::One | Self::Many => 0,
            Self::Links => 2,
        }
    }

    /// The form as its loader has it.
    pub(super) fn form(self) -> Form {
        let form = Form::new(FORM);
        match self {
            Self::One | Self::Links => form.mail_to("a@one.test"),
            Self::Many => form
                .mail_to("a@one.test, b@one.test")
                .mail_to("a@two.test, b@two.test")
                .mail_to("a@three.test, b@three.test"),
        }
    }
}

/// Ids of the submissions of a trial, spread as random ones are.
pub(super) fn ids(n: usize) -> Vec<Uuid> {
    use sha2::Digest as _;
    let id = |number: usize| {
        let digest = sha2::Sha256::digest(number.to_be_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    };
    (0..n).map(id).collect()
}

/// Writes submissions with five fields each, which lie together as they do where people submit them; as superuser
/// and without triggers, so that no event is written.
pub(super) async fn seed(superuser: &Client, shape: Shape, ids: &[Uuid]) -> Result<()> {
    superuser.batch_execute("BEGIN; SET LOCAL session_replication_role = 'replica'").await?;
    superuser
        .execute(
            "INSERT INTO submissions (id, form_id) SELECT id, $2 FROM unnest($1::uuid[]) AS t(id)",
            &[&ids, &FORM],
        )
        .await?;
    superuser
        .execute(
            "INSERT INTO submission_fields (submission_id, field_key, field_value, position)
             SELECT id, 'field ' || n, repeat('x', 40), n FROM unnest($1::uuid[]) WITH ORDINALITY AS t(id, place),
               generate_series(1, 5) AS n ORDER BY place, n",
            &[&ids],
        )
        .await?;
    superuser
        .execute(
            "INSERT INTO attachments (submission_id, file_name, content_type, size_bytes, gcs_bucket, gcs_object,
                                      clamav_status)
             SELECT id, 'form ' || n || '.pdf', 'application/pdf', 1024, 'maple-attachments',
               'submissions/' || id || '/' || n || '-form.pdf', 'clean'
             FROM unnest($1::uuid[]) AS t(id), generate_series(1, $2) AS n",
            &[&ids, &shape.attachments()],
        )
        .await?;
    superuser.batch_execute("COMMIT").await?;
    settled(superuser).await
}

/// Leaves tables as autovacuum would, and no write of the seeding to a contestant.
async fn settled(superuser: &Client) -> Result<()> {
    for statement in
        ["VACUUM ANALYZE submissions, submission_fields, attachments, actions, forms", "CHECKPOINT"]
    {
        superuser.batch_execute(statement).await?;
    }
    Ok(())
}

/// Submissions that lie in the table before any other comes.
const HISTORY: usize = 2_000;

/// Writes submissions that were routed long ago, so that the tables are what they are in use. Of tables that were empty when they
/// were last looked at, a session of the backend keeps a plan that reads the whole of `submissions` for each field it inserts.
pub(super) async fn history(superuser: &Client) -> Result<()> {
    seed(superuser, Shape::One, &ids(HISTORY)).await?;
    let ended = "SET LOCAL session_replication_role = 'replica';
        UPDATE submissions SET status = 'routed', created_at = created_at - interval '1 day', updated_at = updated_at - interval '1 day'";
    superuser.batch_execute(&format!("BEGIN; {ended}; COMMIT")).await?;
    settled(superuser).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_in_every_round_and_differ() {
        let mut some = ids(500);
        assert_eq!(some, ids(500));
        assert_eq!(some[..100], ids(100)[..]);
        some.sort_unstable();
        some.dedup();
        assert_eq!(some.len(), 500);
    }

    #[test]
    fn a_form_has_the_mails_and_recipients_that_are_counted() {
        for shape in Shape::ALL {
            let actions = shape.form().actions;
            assert_eq!(actions.len(), shape.mails());
            assert!(actions.iter().all(|action| action.destination.split(',').count() == shape.recipients()));
        }
    }
}
