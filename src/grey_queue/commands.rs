//! A person's command, from the lock to the commit: lock the subject, then the entry; compare the version, decide, mend, write.
//!
//! All of it is the caller's transaction, so that an answer can be kept beside it. If we die before the commit nothing
//! happened, the remedy included. Goes over no network.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::decide::{Ask, Person, Plan, Possible, Refusal, Rules, Verb, decide, possible};
use super::entry::{Entry, LATE_INFECTION};
use super::metrics::{CONFLICTS, REMEDIES, RemedyOutcome, TRANSITIONS};
use super::store::GreyQueueStore;
use super::table::State;
use crate::db::DbError;
use crate::db::pool::Transaction;
use crate::kernel::Who;
use crate::kernel::rows::Fence;
use crate::kernel::subject::{Deciding, Decision, Looked, OnAccount, Remedied, Remedy, Subject};
use crate::ports::Clock;

/// The rooms that own subjects, by kind.
#[derive(Debug, Clone, Default)]
pub struct Subjects(BTreeMap<&'static str, Arc<dyn Subject>>);

impl Subjects {
    /// These rooms.
    #[must_use]
    pub fn new(rooms: impl IntoIterator<Item = Arc<dyn Subject>>) -> Self {
        Self(rooms.into_iter().map(|room| (room.kind(), room)).collect())
    }

    /// The room of a kind; absent where it is switched off.
    #[must_use]
    pub fn of(&self, kind: &str) -> Option<&Arc<dyn Subject>> {
        self.0.get(kind)
    }
}

/// The users of the desk.
pub trait People: Send + Sync + std::fmt::Debug {
    /// The role of a user, as of now; absent for nobody's name.
    fn role_of(&self, name: &str) -> Option<Who>;
}

/// What commands need.
#[derive(Debug, Clone)]
pub struct Commands {
    /// The entries.
    pub store: GreyQueueStore,
    /// The rooms that own subjects.
    pub subjects: Subjects,
    /// The users of the desk.
    pub people: Arc<dyn People>,
    /// For how long a reviewer keeps an entry before anybody may take it over.
    pub takeover_after: Duration,
    /// The clock of durations.
    pub clock: Arc<dyn Clock>,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It is done; `accepted` where a remedy is under way now.
    Done {
        /// The entry after it.
        entry: Box<Entry>,
        /// A worker looks after it from here.
        accepted: bool,
    },
    /// The entry is not what the person saw.
    Conflict(Box<Entry>),
    /// It changes nothing.
    Refused {
        /// The entry.
        entry: Box<Entry>,
        /// Why.
        refusal: Refusal,
    },
    /// There is no such entry.
    Unknown,
}

impl Commands {
    /// Looks at what an entry is about; absent where the room is switched off or does not answer.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn look(&self, entry: &Entry) -> Result<Option<Looked>, DbError> {
        match self.subjects.of(&entry.subject.kind) {
            Some(room) => room.look(entry.subject.id).await.map(Some),
            None => Ok(None),
        }
    }

    /// The commands of an entry, each judged for `person`; `looked` as of a moment ago.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn possible(
        &self,
        entry: &Entry,
        person: &Person,
        looked: Option<&Looked>,
    ) -> Result<Vec<Possible>, DbError> {
        let now =
            self.store.pool().transaction("grey_queue_now", async |tx| self.store.now(&tx).await).await?;
        let role_of = |name: &str| self.people.role_of(name);
        let (remedies, deciding) = (self.remedies(entry), self.deciding(entry));
        Ok(possible(
            entry,
            person,
            &Rules {
                now,
                takeover_after: self.takeover_after,
                role_of: &role_of,
                remedies,
                deciding,
                looked,
            },
        ))
    }

    /// The remedies of an entry's subject. An infected file that was mailed has none: to send it again is what must not happen.
    #[must_use]
    pub fn remedies(&self, entry: &Entry) -> &'static [Remedy] {
        if entry.cause == LATE_INFECTION {
            return &[];
        }
        self.subjects.of(&entry.subject.kind).map_or(&[], |room| room.remedies())
    }

    /// How people decide about an entry's subject, where the entry is its own last word.
    #[must_use]
    pub fn deciding(&self, entry: &Entry) -> Option<Deciding> {
        self.subjects.of(&entry.subject.kind).and_then(|room| room.deciding())
    }

    /// Carries a command out in `tx`, on the entry as it was seen at `version`. `looked` is the subject as of a moment ago,
    /// for [`Verb::Resolve`]. Whatever is not [`Answer::Done`] leaves `tx` as it was before.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn ask_in(
        &self,
        tx: &Transaction,
        (id, version): (Uuid, i64),
        ask: &Ask,
        person: &Person,
        looked: Option<&Looked>,
    ) -> Result<Answer, DbError> {
        self.store.mark(tx).await?;
        match self.carried_out(tx, (id, version), ask, person, looked).await {
            Ok(done @ Answer::Done { .. }) => Ok(done),
            Ok(other @ (Answer::Conflict(_) | Answer::Refused { .. } | Answer::Unknown)) => {
                self.store.back_to_mark(tx).await?;
                Ok(other)
            }
            // The same happened again between our look for another open entry and our write.
            Err(error) if is_twin(&error) => {
                self.store.back_to_mark(tx).await?;
                let Some(entry) = self.store.held(tx, id).await? else { return Ok(Answer::Unknown) };
                match self.store.twin(tx, &entry).await? {
                    Some(twin) => Ok(Answer::Refused { entry, refusal: Refusal::OpenTwin(twin) }),
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn carried_out(
        &self,
        tx: &Transaction,
        (id, version): (Uuid, i64),
        ask: &Ask,
        person: &Person,
        looked: Option<&Looked>,
    ) -> Result<Answer, DbError> {
        let decision = decision(ask.verb);
        if ask.remedy.is_some() || decision.is_some() {
            // Whoever fails the subject has it, and comes for the entry: the same order here.
            let Some(seen) = self.store.subject_of(tx, id).await? else { return Ok(Answer::Unknown) };
            if let Some(room) = self.subjects.of(&seen.kind)
                && (ask.remedy.is_some() || room.deciding().is_some())
            {
                room.lock(tx, seen.id).await?;
            }
        }
        let Some(entry) = self.store.held(tx, id).await? else { return Ok(Answer::Unknown) };
        if entry.version != version {
            CONFLICTS.add((), 1);
            return Ok(Answer::Conflict(entry));
        }
        let now = self.store.now(tx).await?;
        let plan = match self.planned(&entry, ask, person, now, looked) {
            Ok(plan) => plan,
            Err(refusal) => return Ok(Answer::Refused { entry, refusal }),
        };
        if !entry.state.is_open()
            && let Some(twin) = self.store.twin(tx, &entry).await?
        {
            return Ok(Answer::Refused { entry, refusal: Refusal::OpenTwin(twin) });
        }
        if let Err(refusal) = self.mend(tx, &entry, &plan, person).await? {
            return Ok(Answer::Refused { entry, refusal });
        }
        if let (Some(decision), Some(_)) = (decision, self.deciding(&entry))
            && let Err(refusal) = self.decided(tx, &entry, &plan, decision, person).await?
        {
            return Ok(Answer::Refused { entry, refusal });
        }
        self.write(tx, &entry, &plan, person).await
    }

    /// Takes the subject's own transition of a decision.
    async fn decided(
        &self,
        tx: &Transaction,
        entry: &Entry,
        plan: &Plan,
        decision: Decision,
        person: &Person,
    ) -> Result<Result<(), Refusal>, DbError> {
        let Some(room) = self.subjects.of(&entry.subject.kind) else { return Ok(Ok(())) };
        let review = format!("{}:{}", entry.id, entry.version);
        let account =
            OnAccount { actor: &person.label, reason: reason(plan), review: &review, delivery: None };
        Ok(match room.decide(tx, entry.subject.id, decision, account).await? {
            Remedied::Done => Ok(()),
            Remedied::Refused(why) => Err(Refusal::Remedy(why)),
        })
    }

    fn planned(
        &self,
        entry: &Entry,
        ask: &Ask,
        person: &Person,
        now: Timestamp,
        looked: Option<&Looked>,
    ) -> Result<Plan, Refusal> {
        let role_of = |name: &str| self.people.role_of(name);
        let (takeover_after, remedies) = (self.takeover_after, self.remedies(entry));
        let deciding = self.deciding(entry);
        decide(
            entry,
            ask,
            person,
            &Rules { now, takeover_after, role_of: &role_of, remedies, deciding, looked },
        )
    }

    /// Carries out the remedy of a plan.
    async fn mend(
        &self,
        tx: &Transaction,
        entry: &Entry,
        plan: &Plan,
        person: &Person,
    ) -> Result<Result<(), Refusal>, DbError> {
        let Some((remedy, delivery)) = &plan.remedy else { return Ok(Ok(())) };
        let Some(room) = self.subjects.of(&entry.subject.kind) else { return Ok(Ok(())) };
        if *remedy == Remedy::Check {
            return Ok(Ok(()));
        }
        let review = format!("{}:{}", entry.id, entry.version);
        let account = OnAccount {
            actor: &person.label,
            // As it is recorded: without addresses, and without what PostgreSQL's texts do not have.
            reason: reason(plan),
            review: &review,
            delivery: delivery.as_deref(),
        };
        match room.remedy(tx, entry.subject.id, *remedy, account).await? {
            Remedied::Done => {
                REMEDIES.add(RemedyOutcome::Asked, 1);
                Ok(Ok(()))
            }
            Remedied::Refused(why) => {
                REMEDIES.add(RemedyOutcome::Refused, 1);
                Ok(Err(Refusal::Remedy(why)))
            }
        }
    }

    async fn write(
        &self,
        tx: &Transaction,
        entry: &Entry,
        plan: &Plan,
        person: &Person,
    ) -> Result<Answer, DbError> {
        let mut fence = Fence::Version(entry.version);
        for step in &plan.steps {
            if !self.store.step(tx, &person.label, entry.id, fence, step).await? {
                // Impossible under the lock.
                return Err(DbError::Shape("the entry changed under our lock".to_owned()));
            }
            TRANSITIONS.add(step.transition.command(), 1);
            fence = Fence::Locked;
        }
        if let Some(to) = &plan.assigned {
            self.store.announce_assignment(tx, entry, to).await?;
        }
        let Some(row) = self.store.hold(tx, &[entry.id]).await?.pop() else { return Ok(Answer::Unknown) };
        let accepted = row.state == State::Processing;
        Ok(Answer::Done { entry: Box::new(row.columns), accepted })
    }
}

/// The reason of a plan, as it is recorded.
fn reason(plan: &Plan) -> &str {
    plan.steps.iter().find_map(|step| step.reason.as_deref()).unwrap_or_default()
}

/// What a command decides about a subject whose entry is its own last word.
fn decision(verb: Verb) -> Option<Decision> {
    match verb {
        Verb::Escalate => Some(Decision::Escalate),
        Verb::Resolve => Some(Decision::Approve),
        Verb::Reject => Some(Decision::Reject),
        Verb::Assign
        | Verb::Unassign
        | Verb::DeEscalate
        | Verb::Dismiss
        | Verb::Reopen
        | Verb::Reset
        | Verb::Start => None,
    }
}

/// Whether another open entry about the same came first.
fn is_twin(error: &DbError) -> bool {
    matches!(error, DbError::Server { code, object, .. }
        if code == "23505" && object.contains(", constraint grey_queue_open"))
}
