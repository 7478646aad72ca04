//! Claims alive in this process: a claim is a value that is spent, and the fence is asked of it (protocol §4).
//!
//! Dropping a [`Claim`] takes it from the register, so that the heartbeat touches only rows in work.

pub mod in_doubt_permits;
pub mod scope;
pub mod slots;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::submission::content::SubmissionContent;
use super::submission::lag::Waiting;
use super::submission::ledger::Ledger;
use crate::db::batch::Refused;

/// Answer of a heartbeat. A claim in neither set is unknown: its row was locked by another session, or refused the touch.
#[derive(Debug, Clone, Default)]
pub struct Heartbeat {
    /// Claims that were touched.
    pub confirmed: BTreeSet<Uuid>,
    /// Claims that this process has lost.
    pub lost: BTreeSet<Uuid>,
    /// Rows that refuse the touch: the fence stops their sends in time, and only theirs.
    pub refused: Vec<Refused<Uuid>>,
}

/// A row that is now claimed.
#[derive(Debug)]
pub struct TakenRow {
    /// Form of the submission.
    pub form_id: String,
    /// The ledger as it was written, without the intents of the deliveries in `intents`.
    pub ledger: Ledger,
    /// The claim's token.
    pub token: String,
    /// Remaining life of the claim, by the database's clock, from the moment it was read.
    pub lives: Duration,
    /// Start of the wait for it.
    pub waiting: Waiting,
    /// Submission content that the mails are made from; absent where it could not be read, which the preparer reports.
    pub content: Option<SubmissionContent>,
    /// Deliveries of the first mail whose intents are recorded with the claim; empty: the worker records them.
    pub intents: Vec<String>,
}

/// Bounds of a claim's life (protocol, "Defaults").
#[derive(Debug, Clone, Copy)]
pub struct ClaimBounds {
    /// Age of the last confirmed touch from which no final dot is sent.
    pub fence_after: Duration,
    /// Longest duration of one send.
    pub delivery_deadline: Duration,
}

/// A committed claim. Not `Clone`: routing spends it.
#[derive(Debug)]
pub struct Claim {
    /// The submission.
    pub id: Uuid,
    /// Form of the submission.
    pub form_id: String,
    /// Fences every transition.
    pub token: String,
    /// Attempt that the claim cost, from 1.
    pub attempt: u32,
    life: Arc<Life>,
    register: LiveClaims,
}

#[derive(Debug)]
struct Life {
    token: String,
    bounds: ClaimBounds,
    lives: Duration,
    deadline: Instant,
    touched: Mutex<Instant>,
    given_up: CancellationToken,
    lost: CancellationToken,
}

/// The fence of a claim, asked immediately before what cannot be taken back; the error says why nothing may be sent.
pub type Fence<'a> = &'a (dyn Fn() -> Result<(), String> + Sync);

impl Claim {
    /// Notes that a database write which needed the token was committed; `before` was read before it was sent.
    pub fn touched(&self, before: Instant) {
        self.life.touched(before);
    }

    /// The fence, asked right before the final dot (protocol §4).
    ///
    /// # Errors
    /// The reason why the dot must not be written.
    pub fn may_send(&self, now: Instant) -> Result<(), String> {
        let life = &self.life;
        if life.lost.is_cancelled() {
            return Err("the claim was lost".to_owned());
        }
        let untouched =
            now.saturating_duration_since(*life.touched.lock().unwrap_or_else(PoisonError::into_inner));
        if untouched >= life.bounds.fence_after {
            return Err(format!("the claim was last confirmed {} s ago", untouched.as_secs()));
        }
        if life.deadline.saturating_duration_since(now) < life.bounds.delivery_deadline {
            return Err("the claim ends before the send could".to_owned());
        }
        Ok(())
    }

    /// Time for which a send may still be put off, before the claim's remaining time no longer covers it (protocol §4). A quarter
    /// of that time at the claim's start is kept for the intent and the dialogue up to the dot, where the fence asks again:
    /// a send stopped only there would cost an attempt.
    #[must_use]
    pub fn may_wait(&self, now: Instant) -> Duration {
        let life = &self.life;
        let kept = life.lives.saturating_sub(life.bounds.delivery_deadline) / 4;
        life.deadline.saturating_duration_since(now).saturating_sub(life.bounds.delivery_deadline + kept)
    }

    /// Resolves when the daemon stops taking on sends: claims without an intent go back.
    pub async fn given_up(&self) {
        self.life.given_up.cancelled().await;
    }

    /// Whether the daemon has stopped taking on sends.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.life.given_up.is_cancelled()
    }

    /// Time of this process at which the claim ends at the latest.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.life.deadline
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.register.lock().remove(&self.id);
    }
}

impl Life {
    fn touched(&self, before: Instant) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        *touched = before.max(*touched);
    }
}

/// The register of claims alive in this process.
#[derive(Debug, Clone)]
pub struct LiveClaims {
    bounds: ClaimBounds,
    given_up: CancellationToken,
    claims: Arc<Mutex<HashMap<Uuid, Arc<Life>>>>,
}

impl LiveClaims {
    /// An empty register. `given_up` is cancelled when the daemon stops taking on sends.
    #[must_use]
    pub fn new(bounds: ClaimBounds, given_up: CancellationToken) -> Self {
        Self { bounds, given_up, claims: Arc::default() }
    }

    /// Enters a claim that was committed. `before` was read before the claim was sent; `row.lives` counts from there, by the
    /// database's clock.
    #[must_use]
    pub fn enter(&self, id: Uuid, row: &TakenRow, before: Instant) -> Claim {
        let token = row.token.clone();
        let life = Arc::new(Life {
            token: token.clone(),
            bounds: self.bounds,
            lives: row.lives,
            deadline: before + row.lives,
            touched: Mutex::new(before),
            given_up: self.given_up.clone(),
            lost: CancellationToken::new(),
        });
        self.lock().insert(id, Arc::clone(&life));
        Claim {
            id,
            form_id: row.form_id.clone(),
            token,
            attempt: row.ledger.attempts,
            life,
            register: self.clone(),
        }
    }

    /// Submission and token of every live claim, for the heartbeat.
    #[must_use]
    pub fn all(&self) -> Vec<(Uuid, String)> {
        self.lock().iter().map(|(id, life)| (*id, life.token.clone())).collect()
    }

    /// Takes in the answer of a heartbeat over `asked`; `before` was read before it was sent.
    pub fn heartbeat(&self, asked: &[(Uuid, String)], heartbeat: &Heartbeat, before: Instant) {
        let claims = self.lock();
        for (id, token) in asked {
            let Some(life) = claims.get(id).filter(|life| life.token == *token) else { continue };
            if heartbeat.confirmed.contains(id) {
                life.touched(before);
            } else if heartbeat.lost.contains(id) {
                life.lost.cancel();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Arc<Life>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::submission::ledger::Ledger;

    const SECOND: Duration = Duration::from_secs(1);

    fn register() -> LiveClaims {
        let bounds = ClaimBounds { fence_after: 300 * SECOND, delivery_deadline: 180 * SECOND };
        LiveClaims::new(bounds, CancellationToken::new())
    }

    fn row() -> TakenRow {
        let (form_id, token) = ("f".to_owned(), "t".to_owned());
        TakenRow {
            form_id,
            ledger: Ledger::default(),
            token,
            lives: 1200 * SECOND,
            waiting: crate::routing::submission::lag::Waiting::default(),
            content: None,
            intents: Vec::new(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn the_fence_falls_when_untouched_for_fence_after_and_rises_with_a_touch() {
        let (live, t0) = (register(), start());
        let claim = live.enter(Uuid::nil(), &row(), t0);
        assert_eq!(claim.may_send(t0 + 299 * SECOND), Ok(()));
        assert!(claim.may_send(t0 + 300 * SECOND).is_err());
        claim.touched(t0 + 290 * SECOND);
        assert_eq!(claim.may_send(t0 + 300 * SECOND), Ok(()));
    }

    #[test]
    fn no_send_starts_that_the_claim_may_not_outlive() {
        let (live, t0) = (register(), start());
        let claim = live.enter(Uuid::nil(), &row(), t0);
        claim.touched(t0 + 1019 * SECOND);
        assert_eq!(claim.may_send(t0 + 1020 * SECOND), Ok(()));
        assert_eq!(claim.may_wait(t0), 765 * SECOND, "a quarter of 1020 s is kept for the way to the dot");
        assert_eq!(claim.may_wait(t0 + 765 * SECOND), Duration::ZERO);
        claim.touched(t0 + 1021 * SECOND);
        assert!(claim.may_send(t0 + 1021 * SECOND).is_err());
    }

    #[test]
    fn a_heartbeat_that_is_not_confirmed_fences_and_a_dropped_claim_is_forgotten() {
        let (live, t0) = (register(), start());
        let claim = live.enter(Uuid::nil(), &row(), t0);
        let asked = live.all();
        let here = BTreeSet::from([Uuid::nil()]);
        let confirmed = Heartbeat { confirmed: here.clone(), ..Heartbeat::default() };
        live.heartbeat(&asked, &confirmed, t0 + SECOND);
        assert_eq!(claim.may_send(t0 + 2 * SECOND), Ok(()));
        live.heartbeat(&asked, &Heartbeat::default(), t0 + 2 * SECOND);
        assert_eq!(claim.may_send(t0 + 2 * SECOND), Ok(()));
        live.heartbeat(&asked, &Heartbeat { lost: here, ..Heartbeat::default() }, t0 + 3 * SECOND);
        assert!(claim.may_send(t0 + 3 * SECOND).is_err());
        drop(claim);
        assert_eq!(live.all(), []);
    }
}
