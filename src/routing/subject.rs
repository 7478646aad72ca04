//! A submission as the subject of a review: a look at it, and its remedies, which are the verbs of the command line.
//!
//! A remedy leaves the override that the verb would leave, with the attempt that asked for it; an attempt that has left one
//! does nothing more, so that a remedy whose commit got no answer can be asked for again. If we die before the caller's commit
//! nothing happened; after it an outbox event, or the sweep, brings the submission back. Nothing is sent from here.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use uuid::Uuid;

use super::decide::evidence::evidence;
use super::decide::replay::{Force, ReplayOptions, ReplayRefusal};
use super::journal::overrides as journal;
use super::store::overrides::Override;
use super::store::sweep::Released;
use super::store::view::View;
use super::store::{Replayed, Store};
use super::table::Status;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::subject::{Looked, OnAccount, Remedied, Remedy, Subject};
use crate::ops::rng::Rng;

/// The kind of these subjects.
pub const KIND: &str = "submission";
/// The verb of a replay in ledger and journal.
pub const REPLAY: &str = "replay";
/// The name of the attempt in an override.
const REVIEW: &str = "review";
/// The verb of a back-fill in ledger and journal.
pub const BACKFILL: &str = "backfill";
/// The verb of a release in ledger and journal.
pub const RELEASE: &str = "release";

/// The submissions of one database.
#[derive(Debug, Clone)]
pub struct SubmissionSubject {
    /// The rows, as they are written.
    pub store: Store,
    /// The rows, as they are shown.
    pub view: View,
    /// Whether the relay's log is followed (`[relay_log] enabled`).
    pub followed: bool,
    /// Names the ends of released claims.
    pub rng: Arc<Rng>,
}

impl Subject for SubmissionSubject {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn remedies(&self) -> &'static [Remedy] {
        &[Remedy::Check, Remedy::Replay, Remedy::Replan, Remedy::ForceDelivery, Remedy::Release]
    }

    fn look(&self, id: Uuid) -> BoxFuture<'_, Result<Looked, DbError>> {
        async move {
            let Some(found) = self.view.look(id).await? else { return Ok(Looked::Gone) };
            let has_actions = found.current.as_ref().is_ok_and(|actions| !actions.is_empty());
            Ok(evidence(found.status, found.ledger.as_ref(), self.followed, has_actions))
        }
        .boxed()
    }

    fn lock<'a>(&'a self, tx: &'a Transaction, id: Uuid) -> BoxFuture<'a, Result<(), DbError>> {
        self.store.lock_in(tx, id).boxed()
    }

    fn remedy<'a>(
        &'a self,
        tx: &'a Transaction,
        id: Uuid,
        remedy: Remedy,
        account: OnAccount<'a>,
    ) -> BoxFuture<'a, Result<Remedied, DbError>> {
        async move {
            if remedy == Remedy::Check || self.store.is_noted_in(tx, id, (REVIEW, account.review)).await? {
                return Ok(Remedied::Done);
            }
            match remedy {
                Remedy::Replay => self.replay(tx, id, ReplayOptions::default(), account).await,
                Remedy::Replan => {
                    self.replay(tx, id, ReplayOptions { replan: true, ..ReplayOptions::default() }, account)
                        .await
                }
                Remedy::ForceDelivery => match account.delivery {
                    Some(key) => {
                        let options = ReplayOptions { force: Some(Force::Delivery(key)), replan: false };
                        self.replay(tx, id, options, account).await
                    }
                    None => Ok(Remedied::Refused("say which delivery shall be sent again".to_owned())),
                },
                Remedy::Release => self.release(tx, id, account).await,
                Remedy::Check | Remedy::Redrive => {
                    Ok(Remedied::Refused(format!("a submission has no remedy {remedy}")))
                }
            }
        }
        .boxed()
    }
}

/// What became of a mail that was to go again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// It goes, or went before on the same account.
    Done,
    /// Nothing was sent that could go again: what goes later has all that there is.
    Nothing,
    /// It is still under way for the first time.
    UnderWay,
    /// It cannot go, and why.
    Refused(String),
}

impl SubmissionSubject {
    /// The order of a submission's first action that is a mail; none where its plan has none, or there is no plan to go by.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn first_mail(&self, id: Uuid) -> Result<Option<i32>, DbError> {
        let Some(found) = self.view.look(id).await? else { return Ok(None) };
        let Ok(ledger) = &found.ledger else { return Ok(None) };
        let mails = ledger.plan.iter().filter(|action| action.action_type.is_email());
        // Before it is claimed nothing of it went.
        let unplanned = matches!(found.status, Status::Received | Status::Processing).then_some(0);
        Ok(mails.map(|action| action.action_order).min().or(unplanned))
    }

    /// Has the mail of an action go again, as another mail, once on an account's attempt.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn send_again(
        &self,
        tx: &Transaction,
        id: Uuid,
        order: i32,
        account: OnAccount<'_>,
    ) -> Result<Again, DbError> {
        if self.store.is_noted_in(tx, id, (REVIEW, account.review)).await? {
            return Ok(Again::Done);
        }
        let more = review_of(account);
        let options = ReplayOptions { force: Some(Force::Action(order)), replan: false };
        let replayed = self.store.replay_in(tx, id, options, note(REPLAY, account, &more), false).await?;
        Ok(match replayed {
            Replayed::Done { form_id, replay } => {
                self.once_committed(tx, REPLAY, account, move |note| {
                    journal::replayed(id, &form_id, note, &replay);
                });
                Again::Done
            }
            Replayed::Unknown
            | Replayed::Refused(ReplayRefusal::Purged | ReplayRefusal::NothingAccepted(_)) => Again::Nothing,
            Replayed::Refused(ReplayRefusal::NotEnded(_)) => Again::UnderWay,
            Replayed::Refused(why) => Again::Refused(why.to_string()),
        })
    }

    async fn replay(
        &self,
        tx: &Transaction,
        id: Uuid,
        options: ReplayOptions<'_>,
        account: OnAccount<'_>,
    ) -> Result<Remedied, DbError> {
        let more = review_of(account);
        let replayed = self.store.replay_in(tx, id, options, note(REPLAY, account, &more), false).await?;
        if let Some(why) = replayed.refusal() {
            return Ok(Remedied::Refused(why));
        }
        if let Replayed::Done { form_id, replay } = replayed {
            self.once_committed(tx, REPLAY, account, move |note| {
                journal::replayed(id, &form_id, note, &replay);
            });
        }
        Ok(Remedied::Done)
    }

    async fn release(&self, tx: &Transaction, id: Uuid, account: OnAccount<'_>) -> Result<Remedied, DbError> {
        let more = review_of(account);
        let end = self.rng.uuid().to_string();
        let released = self.store.reset_in(tx, id, &end, note(RELEASE, account, &more)).await?;
        if let Some(why) = released.refusal() {
            return Ok(Remedied::Refused(why));
        }
        if let Released::Done(retaken) = released {
            self.once_committed(tx, RELEASE, account, move |note| journal::released(&retaken, note));
        }
        Ok(Remedied::Done)
    }

    /// Has the verb's line written when the caller's transaction stands.
    fn once_committed(
        &self,
        tx: &Transaction,
        verb: &'static str,
        account: OnAccount<'_>,
        line: impl FnOnce(Override<'_>) + Send + 'static,
    ) {
        let (actor, reason, more) = (account.actor.to_owned(), account.reason.to_owned(), review_of(account));
        tx.on_commit(move || line(Override { actor: &actor, verb, reason: Some(&reason), more: &more }));
    }
}

/// The attempt, beside the override that it leaves.
fn review_of(account: OnAccount<'_>) -> Value {
    json!({REVIEW: account.review})
}

fn note<'a>(verb: &'static str, account: OnAccount<'a>, more: &'a Value) -> Override<'a> {
    Override { actor: account.actor, verb, reason: Some(account.reason), more }
}
