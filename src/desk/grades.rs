//! A person's grade of a work, as API and pages give it: one transaction in which the review ends and its entry is resolved beside it, with the
//! answer that is kept for a repeated request. And what such a person is shown, of which the access log has a line before.
//!
//! The attempt is locked before the entry. If we die before the commit nothing happened; if the entry refuses, the grade is taken back. Nothing
//! that people wrote is logged, or kept with the answer.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use super::access::{Role, Visitor};
use super::decide::{Repeat, person, recorded};
use super::problem::{Kind, Problem};
use super::store::access_log::{self, What};
use super::store::idempotency::{keep, once};
use crate::config::{Config, GradingMerge};
use crate::db::{DbError, Transaction};
use crate::grading::core::band::Bands;
use crate::grading::core::merge::Merge;
use crate::grading::core::result::{Broken, GradingResult};
use crate::grading::core::score::Score;
use crate::grading::core::skill::Skill;
use crate::grading::review::{PersonsReview, reviewed};
use crate::grading::store::GradingStore;
use crate::grading::store::people::Reviewed;
use crate::grading::store::views::AttemptView;
use crate::grading::subject::ATTEMPT;
use crate::grading::table::State;
use crate::grey_queue::commands::{Answer, Commands};
use crate::grey_queue::decide::{Ask, LONGEST, Person, Refusal, Verb};
use crate::grey_queue::entry::Entry;
use crate::grey_queue::table::State as EntryState;
use crate::web::idempotency::{Kept, Once};

/// How often an entry that others change meanwhile is looked at anew.
const TRIES: u32 = 3;

/// The grades of one desk. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Grades {
    pub(crate) store: GradingStore,
    commands: Arc<Commands>,
    config: watch::Receiver<Arc<Config>>,
}

/// A person's grade, and what it rests on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grading<'a> {
    /// The submission, or the attempt.
    pub(crate) id: Uuid,
    /// The attempt's version, as the person saw it.
    pub(crate) version: i64,
    /// The grade.
    pub(crate) said: &'a PersonsReview,
    /// Why; recorded.
    pub(crate) reason: &'a str,
    /// Who.
    pub(crate) by: &'a Person,
    /// The key that makes a second request a repetition.
    pub(crate) repeat: Option<Repeat<'a>>,
}

/// The outcome of a grade.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is done: the answer, without a word of the grade's.
    Done(Kept),
    /// It was done before: the answer that was given then.
    Repeated(Kept),
    /// The key belongs to another request.
    KeyMismatch,
    /// The attempt is not what the person saw.
    First(First),
    /// It is not in review, or not reviewed here.
    NotNow(String),
    /// The grade breaks a rule.
    Broken(Broken),
    /// The entry refuses.
    Refused(Refusal),
    /// There is no such attempt.
    Unknown,
}

/// The change that came first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct First {
    /// The attempt's state now.
    pub(crate) state: State,
    /// Its version now.
    pub(crate) version: i64,
    /// The actor of its last move.
    pub(crate) by: String,
    /// When.
    pub(crate) at: Timestamp,
}

impl First {
    /// The problem; `by_header`: the version was in `If-Match`.
    pub(crate) fn problem(&self, by_header: bool) -> Problem {
        let Self { state, version, by, at } = self;
        let kind = if by_header { Kind::PreconditionFailed } else { Kind::VersionConflict };
        Problem::new(
            kind,
            format!("The attempt is {state} now: {by} was first, at {at}."),
            "Look at it again; nothing of your grade was recorded.",
        )
        .with("state", state.label())
        .with("version", *version)
        .with("by", by.as_str())
        .with("at", at.to_string())
    }
}

/// The view of a person who grades.
#[derive(Clone, Serialize)]
pub(crate) struct Assessment {
    /// The attempt.
    pub(crate) id: Uuid,
    pub(crate) submission: Uuid,
    pub(crate) attempt: u32,
    pub(crate) form_id: String,
    pub(crate) skill: Skill,
    pub(crate) state: String,
    pub(crate) version: i64,
    pub(crate) priority: Option<String>,
    pub(crate) confidence: Option<u8>,
    pub(crate) deadline: Timestamp,
    pub(crate) state_since: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    /// The criteria of the skill, in their order.
    pub(crate) criteria: Vec<&'static str>,
    /// The question; absent where the form is graded no more.
    pub(crate) question: Option<Question>,
    /// The text.
    pub(crate) work: Option<String>,
    /// The transcript.
    pub(crate) transcript: Option<String>,
    /// The grader's result; absent also where it is not shown before the person's own.
    pub(crate) ai: Option<GradingResult>,
    pub(crate) human: Option<GradingResult>,
    pub(crate) last: Option<GradingResult>,
    /// The grader's result is not shown before the person's own.
    pub(crate) is_blind: bool,
}

/// Shows no words.
impl std::fmt::Debug for Assessment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assessment").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}

/// The question.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) prompt: String,
    pub(crate) rubric: String,
}

impl Grades {
    /// The grades over the connections of `commands`.
    pub(crate) fn new(commands: Arc<Commands>, config: watch::Receiver<Arc<Config>>) -> Self {
        let store = GradingStore::new(commands.store.pool().clone(), "desk");
        Self { store, commands, config }
    }

    /// A visitor's view of the latest attempt at a submission, or of this attempt; that is recorded before it is read. `None`: there is
    /// none.
    ///
    /// # Errors
    /// [`Problem`]: the visitor may not see it, it cannot be recorded, or the schema is not there.
    pub(crate) async fn shown(&self, visitor: &Visitor, id: Uuid) -> Result<Option<Assessment>, Problem> {
        visitor.must(Role::Instructor)?;
        if !self.store.is_there().await? {
            return Err(Problem::not_installed());
        }
        let Some(AttemptView { id, state, version, attempt }) = self.store.one(id).await? else {
            return Ok(None);
        };
        let subject = attempt.subject;
        let (pool, user) = (self.commands.store.pool(), &visitor.user);
        pool.transaction("desk_shown", async |tx| access_log::append(&tx, user, subject, What::Fields).await)
            .await?;
        let content = self.store.content(subject).await?;
        let field = content.as_ref().and_then(|content| {
            content.profile.as_ref().and_then(|profile| content.field(profile.text_field.as_deref()?))
        });
        let work = field.map(str::to_owned);
        let ai = self.store.result(id, "ai").await?;
        let is_blind = self.config.borrow().grading.blind && state == State::ReviewPending.label();
        let result =
            async |kind| Ok::<_, DbError>(self.store.result(id, kind).await?.map(|(result, _)| result));
        let (human, last) = (result("human").await?, result("final").await?);
        let (ai, transcript) = ai.map_or((None, None), |(result, transcript)| (Some(result), transcript));
        let question = content.and_then(|content| content.profile).map(|profile| Question {
            id: profile.question,
            prompt: profile.prompt,
            rubric: ai.as_ref().map_or(profile.rubric, |result| result.rubric_version.clone()),
        });
        Ok(Some(Assessment {
            id,
            submission: subject,
            attempt: attempt.attempt,
            form_id: attempt.form_id,
            skill: attempt.skill,
            state,
            version,
            priority: attempt.priority.map(|priority| priority.label().to_owned()),
            confidence: attempt.confidence,
            deadline: attempt.deadline,
            state_since: attempt.state_since,
            ended_at: attempt.ended_at,
            criteria: attempt.skill.criteria().iter().map(|criterion| criterion.label()).collect(),
            question,
            work,
            transcript,
            ai: ai.filter(|_| !is_blind),
            human,
            last,
            is_blind,
        }))
    }

    /// Records a person's grade.
    ///
    /// # Errors
    /// [`DbError`]: nothing was changed, unless it is [`DbError::CommitUnknown`].
    pub(crate) async fn grade(&self, grading: &Grading<'_>) -> Result<Outcome, DbError> {
        let Some(view) = self.store.one(grading.id).await? else { return Ok(Outcome::Unknown) };
        if let Some(refusal) = unreasoned(grading.reason) {
            return Ok(Outcome::Refused(refusal));
        }
        let ai = self.store.result(view.id, "ai").await?;
        let (merge, bands) = rules(&self.config.borrow());
        let made = ai.map(|(ai, _)| reviewed(view.attempt.skill, grading.said, &ai, merge, &bands));
        let about = self.commands.store.about(view.id).await?;
        let entry = about.into_iter().find(|entry| entry.subject.kind == ATTEMPT && entry.state.is_open());
        let done = self
            .commands
            .store
            .pool()
            .transaction("desk_decide", async |tx| {
                if let Some(Repeat { key, request }) = grading.repeat {
                    match once(&tx, &grading.by.name, key, request).await? {
                        Once::Kept(kept) => return Ok(Err(Outcome::Repeated(kept))),
                        Once::Mismatch => return Ok(Err(Outcome::KeyMismatch)),
                        Once::Fresh => {}
                    }
                }
                tx.execute("SAVEPOINT graded", &[]).await?;
                match self.graded(&tx, &view, made.as_ref(), entry.as_ref(), grading).await? {
                    Ok((kept, entry)) => {
                        if let Some(Repeat { key, request }) = grading.repeat {
                            keep(&tx, &grading.by.name, key, request, &kept).await?;
                        }
                        Ok(Ok((kept, entry)))
                    }
                    Err(outcome) => {
                        tx.execute("ROLLBACK TO SAVEPOINT graded", &[]).await?;
                        Ok(Err(outcome))
                    }
                }
            })
            .await?;
        Ok(match done {
            Ok((kept, entry)) => {
                recorded(grading.by, Verb::Resolve, &entry);
                Outcome::Done(kept)
            }
            // Asked when the connection is free again.
            Err(Outcome::First(first)) => Outcome::First(self.named(&view, first).await?),
            Err(outcome) => outcome,
        })
    }

    /// The review and its entry's end; whatever is not done is taken back by the caller.
    async fn graded(
        &self,
        tx: &Transaction,
        view: &AttemptView,
        made: Option<&Result<(GradingResult, GradingResult), Broken>>,
        entry: Option<&Entry>,
        grading: &Grading<'_>,
    ) -> Result<Result<(Kept, Box<Entry>), Outcome>, DbError> {
        self.store.lock_attempt(tx, view.id).await?;
        let Some(held) = self.store.held_attempt(tx, view.id).await? else {
            return Ok(Err(Outcome::Unknown));
        };
        if held.version != grading.version {
            return Ok(Err(stale(view, held.state, held.version)));
        }
        if held.state != State::ReviewPending {
            let why = format!(
                "The attempt is {}: only one that is {} waits for a person's grade.",
                held.state,
                State::ReviewPending
            );
            return Ok(Err(Outcome::NotNow(why)));
        }
        if !held.may_review {
            let why = "The database role of the desk may not review: set [desk] database_url to that of maple_desk (rb-015).";
            return Ok(Err(Outcome::NotNow(why.to_owned())));
        }
        let (human, last) = match made {
            Some(Ok(made)) => made,
            Some(Err(broken)) => return Ok(Err(Outcome::Broken(*broken))),
            None => {
                return Ok(Err(Outcome::NotNow(
                    "The submission was emptied: nothing is left to be graded.".to_owned(),
                )));
            }
        };
        let Some(entry) = entry else {
            return Ok(Err(Outcome::NotNow("No entry about the attempt is open.".to_owned())));
        };
        let assigned = match entry.state {
            EntryState::Pending => {
                match self.asked(tx, entry, &Ask::plain(Verb::Assign), grading.by).await? {
                    Ok(entry) => entry,
                    Err(outcome) => return Ok(Err(outcome)),
                }
            }
            EntryState::Processing
            | EntryState::Retrying
            | EntryState::UnderReview
            | EntryState::Escalated
            | EntryState::Resolved
            | EntryState::Rejected
            | EntryState::Failed
            | EntryState::Expired
            | EntryState::Dismissed => Box::new(entry.clone()),
        };
        let on_account = (grading.by.label.as_str(), grading.reason);
        match self.store.review(tx, (view.id, grading.version), (human, last), on_account).await? {
            Reviewed::Done => {}
            Reviewed::Stale => return Ok(Err(stale(view, held.state, held.version))),
            Reviewed::Closed => {
                return Ok(Err(Outcome::NotNow(
                    "The submission was emptied: nothing is left to be graded.".to_owned(),
                )));
            }
        }
        let ask = Ask::because(Verb::Resolve, grading.reason);
        let resolved = match self.asked(tx, &assigned, &ask, grading.by).await? {
            Ok(entry) => entry,
            Err(outcome) => return Ok(Err(outcome)),
        };
        let response = json!({
            "id": view.id,
            "submission": view.attempt.subject,
            "state": State::Completed.label(),
            "version": grading.version.saturating_add(1),
            "human_score": human.overall_score,
            "score": last.overall_score,
            "band": last.band,
            "mode": last.grading_mode,
            "audit": last.audit_flag,
            "entry": resolved.id,
        });
        Ok(Ok((Kept { status: 200, response }, resolved)))
    }

    /// A command to the entry; what others did to it meanwhile is no conflict of the grade's, so it is looked at anew.
    async fn asked(
        &self,
        tx: &Transaction,
        entry: &Entry,
        ask: &Ask,
        by: &Person,
    ) -> Result<Result<Box<Entry>, Outcome>, DbError> {
        let mut version = entry.version;
        for _ in 0..TRIES {
            match self.commands.ask_in(tx, (entry.id, version), ask, by, None).await? {
                Answer::Done { entry, .. } => return Ok(Ok(entry)),
                Answer::Conflict(now) => version = now.version,
                Answer::Refused { refusal, .. } => return Ok(Err(Outcome::Refused(refusal))),
                Answer::Unknown => return Ok(Err(Outcome::Unknown)),
            }
        }
        Ok(Err(Outcome::NotNow("Others change the entry at this moment: try again.".to_owned())))
    }

    /// The change that came first, by the attempt's last event.
    async fn named(&self, view: &AttemptView, first: First) -> Result<First, DbError> {
        let last = self.store.events(view.id).await?.pop();
        Ok(last.map_or_else(
            || first.clone(),
            |event| First { by: event.actor, at: event.created_at, ..first.clone() },
        ))
    }
}

/// The attempt is not what was seen.
fn stale(view: &AttemptView, state: State, version: i64) -> Outcome {
    Outcome::First(First { state, version, by: "system".to_owned(), at: view.attempt.state_since })
}

/// Somebody who may grade, as decisions know them.
///
/// # Errors
/// [`Problem`]: a viewer.
pub(crate) fn grader(visitor: &Visitor) -> Result<Person, Problem> {
    visitor.must(Role::Instructor)?;
    Ok(person(visitor))
}

/// The fault of a reason, before anything is done for it.
fn unreasoned(reason: &str) -> Option<Refusal> {
    let why = if reason.trim().is_empty() {
        "it is kept for those who ask later: say why".to_owned()
    } else if reason.chars().count() > LONGEST {
        format!("at most {LONGEST} characters")
    } else {
        return None;
    };
    Some(Refusal::Guard { field: "reason", why })
}

/// How a final grade is made, and the bands, by the configuration in force.
fn rules(config: &Config) -> (Merge, Bands) {
    let (bands, usual) = (&config.grading.bands, Bands::default());
    let of = |score: f64, or: Score| Score::of_tenth(score).unwrap_or(or);
    let merge = match config.grading.merge {
        GradingMerge::Hybrid => Merge::Weighted,
        GradingMerge::Human => Merge::Human,
    };
    let bands = Bands {
        c1: of(bands.c1, usual.c1),
        b2: of(bands.b2, usual.b2),
        b1: of(bands.b1, usual.b1),
        a2: of(bands.a2, usual.a2),
    };
    (merge, bands)
}
