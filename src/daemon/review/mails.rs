//! Mails to reviewers: an entry was assigned to them. A row of the outbox each, written in the transaction that assigned it.
//!
//! At least once: if we die between the relay's reply and the settlement, it is sent again. Link, cause and age stand in it,
//! and nothing of the submission.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Deserialize;
use uuid::Uuid;

use super::Users;
use crate::gateway::smtp::{Connections, Envelope};
use crate::grey_queue::entry::Entry;
use crate::grey_queue::store::GreyQueueStore;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::Work;
use crate::kernel::rows::Row;
use crate::outbox::row::{delivered, failed};
use crate::outbox::table::Outbox;
use crate::ports::{Outcome, RecordKind};
use crate::queries::review::headline;
use crate::routing::compose::note_mail;
use crate::routing::delivery::sender::TRIAL;
use crate::routing::submission::destination::parse_mailbox;
use crate::routing::worker::prepare::MailRules;
use crate::scrub::scrub;

/// The work of a row that tells a reviewer of an entry.
#[derive(Debug, Clone)]
pub(super) struct Mails {
    pub(super) users: Users,
    pub(super) connections: Connections,
    pub(super) rules: Arc<MailRules>,
    /// The desk's address; absent where there is no desk.
    pub(super) origin: Option<String>,
    pub(super) host: String,
    pub(super) store: GreyQueueStore,
}

/// What such a row says.
#[derive(Debug, Deserialize)]
struct Assigned {
    entry: Uuid,
    assignee: String,
}

impl Work for Mails {
    type Of = Outbox;

    fn run<'a>(&'a self, row: &'a Row<Outbox>) -> BoxFuture<'a, Ending<Outbox>> {
        async move {
            let Ok(assigned) = serde_json::from_slice::<Assigned>(&row.columns.payload) else {
                return failed(RecordKind::Notification, "it names no entry");
            };
            match self.store.get(assigned.entry).await {
                Ok(Some(entry)) if entry.assignee.as_deref() == Some(assigned.assignee.as_str()) => {
                    self.send(row, &entry, &assigned.assignee).await
                }
                // It has another reviewer by now, or none: nobody is to be told any more.
                Ok(_) => delivered(None),
                Err(error) => {
                    tracing::debug!("an entry cannot be looked at now: {}", scrub(&error.to_string()));
                    Ending::Again
                }
            }
        }
        .boxed()
    }
}

impl Mails {
    async fn send(&self, row: &Row<Outbox>, entry: &Entry, assignee: &str) -> Ending<Outbox> {
        let Some(address) = self.users.address_of(assignee) else {
            return failed(RecordKind::Notification, "its reviewer is no user of the desk any more");
        };
        let Ok(to) = parse_mailbox(&address) else {
            return failed(RecordKind::Notification, "its reviewer's address in [desk.users] is none");
        };
        let domain = self.rules.from.address.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
        let message_id = format!("<maple-review.{}.{}@{domain}>", row.id, entry.id.simple());
        let (subject, text) = self.words(entry);
        let mail = match note_mail(&self.rules.from, &to, &message_id, row.columns.created_at, &subject, text)
        {
            Ok(mail) => mail,
            Err(why) => return failed(RecordKind::Notification, &why),
        };
        let mut connection = self.connections.acquire().await;
        let recipients = std::slice::from_ref(&to.address);
        let envelope = Envelope { from: &self.rules.sender(TRIAL), recipients, message: &mail };
        let outcome = connection.send(&envelope, &|| Ok(())).await.pop();
        drop(connection);
        match outcome {
            Some(Outcome::Accepted { .. }) => delivered(None),
            Some(Outcome::Refused(fault)) => {
                let why = format!(
                    "the relay refuses its reviewer's address: {}",
                    fault.reply.code.unwrap_or_default()
                );
                failed(RecordKind::Notification, &why)
            }
            // In doubt as well: twice is better than never, and its Message-ID is the same.
            Some(
                Outcome::Deferred(_)
                | Outcome::Unknown(_)
                | Outcome::Created { .. }
                | Outcome::NotImplemented,
            )
            | None => Ending::Again,
        }
    }

    fn words(&self, entry: &Entry) -> (String, String) {
        let what = headline(entry);
        let form = entry.form_id.as_deref().map(|form| format!(" (form {form})")).unwrap_or_default();
        let link = match &self.origin {
            Some(origin) => format!("{origin}/entries/{}", entry.id),
            None => format!("On {}: maple-router review show {}", self.host, entry.id),
        };
        let text = format!(
            "An entry of the review queue is yours now.\n\n{what}{form}\nOpen since {}, queue {}.\n\n{link}\n",
            entry.opened_at.strftime("%Y-%m-%d %H:%M UTC"),
            entry.queue,
        );
        (format!("Review: {what}"), text)
    }
}
