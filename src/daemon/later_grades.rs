//! The grade of a mail that did not wait for it: its form's first mail goes again, as another mail of the same submission, with the grade in it.
//!
//! A row of the outbox for each attempt, written in the transaction that graded it. The mail goes again by the replay that people have, which leaves
//! an override with the attempt's id: a row that comes again finds it, and nothing goes a third time.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::LAST_WORDS;
use crate::db::DbError;
use crate::db::pool::Pool;
use crate::grading::store::{GradingStore, RESULT};
use crate::kernel::jobs::listener::Listener;
use crate::kernel::jobs::retries::Ending;
use crate::kernel::jobs::works::{self, Bounds, Work};
use crate::kernel::jobs::{Consumer, ConsumerParts, Settings};
use crate::kernel::rows::{Kinds, Row};
use crate::kernel::subject::OnAccount;
use crate::kernel::tasks::Task;
use crate::ops::gate::Gate;
use crate::outbox::parts::OutboxParts;
use crate::outbox::row::{delivered, failed};
use crate::outbox::table::Outbox;
use crate::ports::RecordKind;
use crate::routing::subject::{Again, SubmissionSubject};
use crate::scrub::scrub;

/// Rows in hand at once.
const AT_ONCE: usize = 16;
/// Interval of looks for schema assessment, and for rows that wait.
const LOOK: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_secs(1);
/// Pause while the first mail is still under way.
const UNDER_WAY: Duration = Duration::from_secs(10);
/// Claims that nobody came back from, after which a row is given up on.
const POISON: u32 = 100_000;

/// Sends them, wherever there is a schema assessment.
pub(super) struct LaterGrades(Task);

impl LaterGrades {
    /// Looks for rows until it is stopped. `actor`: whoever the replays are recorded of.
    pub(super) fn start(
        store: GradingStore,
        subject: SubmissionSubject,
        outbox: &OutboxParts,
        gate: Gate,
    ) -> Self {
        let outbox = OutboxParts {
            settings: Settings { most: AT_ONCE, poll: POLL, ..outbox.settings },
            ..outbox.clone()
        };
        Self(Task::spawn("grading's later mails", |stop| async move {
            let actor: Arc<str> = store.actor().into();
            while !stop.is_cancelled() {
                // The breaker reports a database that does not answer.
                if store.is_there().await.unwrap_or(false) {
                    let sends = Sends {
                        pool: store.pool().clone(),
                        subject: subject.clone(),
                        actor: Arc::clone(&actor),
                    };
                    sends.run(&outbox, gate.clone(), stop.clone()).await;
                }
                stop.run_until_cancelled(outbox.clock.sleep(LOOK)).await;
            }
        }))
    }

    /// Stops: what went again stands in its submission.
    pub(super) async fn stop(self) {
        self.0.stop(LAST_WORDS).await;
    }
}

/// The payload of a row.
#[derive(Deserialize)]
struct Graded {
    submission_id: Uuid,
    request_id: Uuid,
}

/// The work of a row that tells of a grade.
#[derive(Debug)]
struct Sends {
    pool: Pool,
    subject: SubmissionSubject,
    actor: Arc<str>,
}

impl Sends {
    async fn run(self, outbox: &OutboxParts, gate: Gate, stop: CancellationToken) {
        let parts = ConsumerParts { kinds: Kinds::Only(vec![RESULT]), ..outbox.jobs() };
        let consumer = Consumer::start(parts, Listener::silent());
        works::run(consumer, Arc::new(self), Bounds { poison: POISON, drain: LAST_WORDS / 2, gate }, stop)
            .await;
    }

    async fn again(&self, graded: &Graded) -> Result<Again, DbError> {
        let review = format!("grading:{}", graded.request_id);
        let account = OnAccount {
            actor: &self.actor,
            reason: "it is graded: its mail goes again, with the grade",
            review: &review,
            delivery: None,
        };
        let id = graded.submission_id;
        let Some(order) = self.subject.first_mail(id).await? else { return Ok(Again::Nothing) };
        self.pool
            .transaction("grading_later", async |tx| self.subject.send_again(&tx, id, order, account).await)
            .await
    }
}

impl Work for Sends {
    type Of = Outbox;

    fn run<'a>(&'a self, row: &'a Row<Outbox>) -> BoxFuture<'a, Ending<Outbox>> {
        async move {
            let Ok(graded) = serde_json::from_slice::<Graded>(&row.columns.payload) else {
                return failed(RecordKind::Notification, "it names no submission");
            };
            match self.again(&graded).await {
                Ok(Again::Done | Again::Nothing) => delivered(None),
                Ok(Again::UnderWay) => Ending::After(UNDER_WAY),
                Ok(Again::Refused(why)) => failed(RecordKind::Notification, &why),
                Err(error) => {
                    tracing::warn!(
                        submission_id = %graded.submission_id,
                        "the grade of submission {} goes later: {}",
                        graded.submission_id,
                        scrub(&error.to_string())
                    );
                    Ending::Again
                }
            }
        }
        .boxed()
    }
}
