//! The statements of grading: an attempt from its birth over a job to a late result, another attempt to a person's review, and what daemon,
//! publisher, learners and people read. Part of a round where the schemas are there.
//!
//! No model is asked: what it would say is written down as it would be.

use std::time::Duration;

use devkit::forms::SubmissionSeed;
use devkit::postgres::TestDatabase;
use jiff::Timestamp;
use maple_router::config::Database;
use maple_router::db::{Pool, PoolOptions};
use maple_router::grading::core::band::Bands;
use maple_router::grading::core::message::{Callback, Said, Status};
use maple_router::grading::core::result::GradingResult;
use maple_router::grading::core::skill::{Skill, Task};
use maple_router::grading::job::store::{Accepted, Calibration, JobStore, Step, StepKind, Wanted};
use maple_router::grading::job::table::{Command as JobCommand, Job, State as JobState};
use maple_router::grading::link::ends::Ends;
use maple_router::grading::queue::{Buried, Queue, QueueName};
use maple_router::grading::store::GradingStore;
use maple_router::grading::store::people::{Regraded, Released, Reviewed};
use maple_router::grading::store::setup::{NewProfile, OnFailed, Question};
use maple_router::grading::store::views::ListFilter;
use maple_router::grading::table::{Command, Grading as Attempts, State};
use maple_router::kernel::rows::{Fence, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

const FORM: &str = "graded";
const QUESTION: &str = "q";
const HOUR: Duration = Duration::from_secs(3600);
const BY: (&str, &str) = ("operator:zoe", "a test");

/// Grading in one database: the daemon's hands, the grader's, the publisher's, and the desk.
pub(crate) struct Grading {
    daemon: GradingStore,
    callbacks: Queue,
    grader: JobStore,
    requests: Queue,
    /// The topics' ends, of the daemon and of the grader.
    ends: [Ends; 2],
    publisher: GradingStore,
    desk: GradingStore,
    rng: Rng,
}

impl Grading {
    pub(crate) fn on(db: &TestDatabase, daemon: Pool) -> Self {
        let pool = |role: &str| {
            // One connection, like the daemon's.
            let database = Database {
                url: db.url_as(role),
                max_connections: 1,
                statement_timeout: Duration::from_secs(120),
                ..Database::default()
            };
            Pool::new(&database, PoolOptions::new(std::sync::Arc::new(SystemClock))).expect("a pool")
        };
        let grader = JobStore::new(pool("maple_grader"), "grader");
        Self {
            requests: Queue::new(grader.pool().clone(), QueueName::Request),
            callbacks: Queue::new(daemon.clone(), QueueName::Callback),
            ends: [
                Ends::new(daemon.clone(), QueueName::Request),
                Ends::new(grader.pool().clone(), QueueName::Callback),
            ],
            daemon: GradingStore::new(daemon, "maple-router@test"),
            grader,
            publisher: GradingStore::new(pool("forms_loader"), "operator:zoe"),
            desk: GradingStore::new(pool("maple_desk"), "desk"),
            rng: Rng::from_system(),
        }
    }

    /// Says every statement once.
    pub(crate) async fn round(&self, eyes: &Client, backend: &Client) {
        assert!(self.daemon.is_there().await.expect("asked"));
        assert!(self.grader.is_there().await.expect("asked"));
        let form = format!("INSERT INTO forms (id, name) VALUES ('{FORM}', 'G') ON CONFLICT DO NOTHING");
        eyes.batch_execute(&form).await.expect("a form");
        self.set().await;
        let id =
            SubmissionSeed::of(FORM).field("answer", "q").insert(backend).await.expect("a submission").id;
        self.daemon.births(100).await.expect("a pass");
        let attempt = self.daemon.one(id).await.expect("read").expect("an attempt").id;
        self.publish(id, attempt).await;
        let job = self.accept(id, attempt).await;
        self.grade(job).await;
        self.fail(eyes, id, attempt).await;
        let second = self.again(eyes, id).await;
        self.review(second).await;
        self.look(id, attempt).await;
        self.forget(eyes, id).await;
        self.ends[0].bury(self.rng.uuid(), 1, "1", "a test").await.expect("buried");
        let all = "DELETE FROM mq.grading_dlq WHERE payload ? 'bytes'";
        eyes.batch_execute(all).await.expect("nobody's any more");
        assert!(self.publisher.disable(FORM).await.expect("set"));
    }

    /// What the publisher sets, and what a trial records.
    async fn set(&self) {
        let publisher = &self.publisher;
        assert!(publisher.may_set().await.expect("asked") && publisher.is_form(FORM).await.expect("asked"));
        let question = Question {
            skill: Skill::Writing,
            prompt: "Discuss.".to_owned(),
            answer_key: None,
            known: Vec::new(),
            rubric: "1".to_owned(),
        };
        publisher.put_question(QUESTION, &question, BY.0).await.expect("set");
        assert_eq!(publisher.question_skill(QUESTION).await.expect("read"), Some(Skill::Writing));
        let profile = NewProfile {
            form: FORM.to_owned(),
            skill: Skill::Writing,
            question: QUESTION.to_owned(),
            text_field: Some("answer".to_owned()),
            task: Some(Task::Essay),
            part: None,
            consent_field: None,
            gate: true,
            on_failed: OnFailed::Hold,
            sla: HOUR,
        };
        publisher.enable(&profile, BY.0).await.expect("set");
        assert_eq!(self.daemon.forms().await.expect("read").len(), 1);
        let tried = Calibration {
            skill: Skill::Writing,
            models: "m".to_owned(),
            prompt: "p".to_owned(),
            rubric: "1".to_owned(),
            items: (30, 30),
            qwk: 0.9,
            mae: 0.1,
            ece: 0.1,
            suffices: true,
        };
        self.grader.record_calibration(&tried, BY.0).await.expect("recorded");
        assert!(self.grader.suffices(Skill::Writing, "m", "p", "1").await.expect("asked"));
    }

    /// What the daemon does with what waits to be sent.
    async fn publish(&self, id: Uuid, attempt: Uuid) {
        let (store, kinds, token) = (&self.daemon, Kinds::Only(vec!["live"]), self.rng.uuid());
        assert!(store.waits(State::Pending, &kinds).await.expect("asked"));
        let claimed = store.claim(State::Pending, &kinds, 10, HOUR, token).await.expect("claimed");
        assert!(claimed.iter().any(|row| row.id == attempt), "ours");
        store.extend(&[(attempt, token)], HOUR).await.expect("extended");
        assert!(store.content(id).await.expect("read").is_some());
        let request = json!({"kind": "cancel", "requestId": attempt, "submissionId": id, "attempt": 1});
        let sent = Transition::leading(State::Pending, Command::RequestPublished, State::Queued, Who::WORKER)
            .expect("an edge");
        let columns = json!({"message": self.rng.uuid(), "request": request});
        let write =
            Write::<Attempts> { columns: Some(columns), ..Write::plain(attempt, Fence::Lease(token), sent) };
        assert!(store.settle(&[write]).await.expect("settled").contains(&attempt));
        store.wake(100).await.expect("woken");
    }

    /// What waits on one side goes over its topic to the other.
    async fn carry(&self, from: usize) {
        let (sender, receiver) = (&self.ends[from], &self.ends[1 - from]);
        let sent = sender.to_send(10, HOUR).await.expect("looked").pop().expect("a message");
        sender.sent(&[sent.id]).await.expect("taken out");
        receiver.arrived(sent.id, &sent.payload, sent.written).await.expect("put in");
    }

    /// What the grader does with what was sent: the message is a job, once.
    async fn accept(&self, id: Uuid, attempt: Uuid) -> Uuid {
        self.carry(0).await;
        let message = self.requests.page(10).await.expect("looked").pop().expect("a message");
        assert_eq!(self.requests.put_back(message).await.expect("put back"), 1);
        let taken = self.requests.pool().transaction("grading_take", async |tx| {
            let found = self.requests.lock(&tx, message).await?.expect("ours");
            let now = self.grader.now(&tx).await?;
            let ids = (attempt, id, 1);
            let accept =
                async || self.grader.accept(&tx, ids, Skill::Writing, &json!({"of": id}), now + HOUR).await;
            let Accepted::New(job) = accept().await? else { panic!("it is new") };
            assert_eq!(accept().await?, Accepted::Known(job));
            assert!(!self.grader.send_again(&tx, job, self.rng.uuid()).await?, "it goes on");
            self.requests.bury(&tx, &found, Buried::Unreadable, "a test").await?;
            Ok(job)
        });
        taken.await.expect("taken in")
    }

    /// A job is worked on: a step is paid for, and another one taken over.
    async fn grade(&self, job: Uuid) {
        let (store, kinds, token) = (&self.grader, Kinds::Only(vec!["live"]), self.rng.uuid());
        assert!(store.waits(JobState::Queued, &kinds).await.expect("asked"));
        let claimed = store.claim(JobState::Queued, &kinds, 10, HOUR, token).await.expect("claimed");
        assert!(claimed.iter().any(|row| row.id == job), "ours");
        store.extend(&[(job, token)], HOUR).await.expect("extended");
        assert_eq!(store.wanted(job, token).await.expect("asked"), Some(Wanted::Wanted));
        let step = Step { output: json!({"text": "x"}), model: "m".to_owned(), tokens: 10, took_ms: 1 };
        let kind = StepKind::Sample;
        let digest = hex::encode(job.as_bytes().repeat(2));
        store.record_step(job, (kind, 1), &digest, &step, false).await.expect("kept");
        assert_eq!(store.steps(job, kind, &digest).await.expect("read").len(), 1);
        assert!(store.same_step(&digest, kind, 1).await.expect("read").is_some());
        store.spend(10).await.expect("counted");
        assert!(store.spent().await.expect("read") >= 20);
        let begun =
            Transition::leading(JobState::Queued, JobCommand::PickedUp, JobState::Processing, Who::WORKER)
                .expect("an edge");
        let write = Write::<Job>::plain(job, Fence::Lease(token), begun);
        assert!(store.settle(&[write]).await.expect("settled").contains(&job));
        store.wake(100).await.expect("woken");
        store.empty(HOUR, 100).await.expect("emptied");
    }

    fn callback(&self, (id, attempt): (Uuid, Uuid), at: (u32, u32), said: Said) -> Callback {
        Callback {
            request_id: attempt,
            submission_id: id,
            job_id: self.rng.uuid(),
            r#try: at.0,
            seq: at.1,
            event_at: Timestamp::UNIX_EPOCH,
            said,
        }
    }

    /// A callback is sent, and taken in.
    async fn tell(&self, callback: &Callback) {
        let document: Value =
            serde_json::from_slice(&callback.to_bytes().expect("a callback")).expect("JSON");
        let id = callback.event_id();
        let sent = self
            .grader
            .pool()
            .transaction("grading_take", async |tx| self.grader.send(&tx, id, &document).await);
        sent.await.expect("sent");
        self.carry(1).await;
        assert!(self.callbacks.page(10).await.expect("looked").contains(&id));
        assert_eq!(self.callbacks.put_back(id).await.expect("put back"), 1);
        let taken = self.daemon.take_callback(&self.callbacks, id, &Bands::default()).await;
        assert!(taken.expect("taken in").is_some());
    }

    /// Its deadline passes; a result comes too late, and another of the same try.
    async fn fail(&self, eyes: &Client, id: Uuid, attempt: Uuid) {
        let progress = || Said::Progress { status: Status::Processing, error: None };
        self.tell(&self.callback((id, attempt), (1, 1), progress())).await;
        self.tell(&self.callback((id, attempt), (1, 2), progress())).await;
        let late = format!(
            "SET session_replication_role = replica;
             UPDATE assessment.submissions SET deadline = now() - interval '1 s' WHERE id = '{attempt}';
             SET session_replication_role = origin"
        );
        eyes.batch_execute(&late).await.expect("late");
        let due = self.daemon.due((Timestamp::UNIX_EPOCH, Uuid::nil()), 10).await.expect("looked");
        assert!(due.iter().any(|(_, found)| *found == attempt), "ours");
        assert!(self.daemon.time_out(attempt, self.rng.uuid()).await.expect("failed").is_some());
        for score in [7.0, 7.5] {
            let said = Said::Completed { result: Box::new(result(score, false)), transcript: None };
            self.tell(&self.callback((id, attempt), (1, 3), said)).await;
        }
        let cancelled =
            self.grader.pool().transaction("grading_take", async |tx| self.grader.cancel(&tx, attempt).await);
        assert!(cancelled.await.expect("cancelled"));
    }

    /// Another attempt, whose mail is let go, and which waits for a person.
    async fn again(&self, eyes: &Client, id: Uuid) -> Uuid {
        let asked = self.daemon.pool().transaction("grading_set", async |tx| {
            let (answer, fresh) = self.daemon.regrade(&tx, id, BY).await?;
            assert_eq!(answer, Regraded::Done);
            assert_eq!(self.daemon.release(&tx, id, BY).await?, Released::Done);
            Ok(fresh)
        });
        let fresh = asked.await.expect("answered").expect("an attempt");
        let queued = format!("UPDATE assessment.submissions SET state = 'QUEUED' WHERE id = '{fresh}'");
        eyes.batch_execute(&queued).await.expect("queued");
        let said = Said::Completed { result: Box::new(result(7.0, true)), transcript: None };
        self.tell(&self.callback((id, fresh), (1, 2), said)).await;
        fresh
    }

    /// A person gives the grade.
    async fn review(&self, attempt: Uuid) {
        let (ai, _) = self.desk.result(attempt, "ai").await.expect("read").expect("there is one");
        let last = result(7.0, false);
        let reviewed = self.desk.pool().transaction("grading_set", async |tx| {
            self.desk.lock_attempt(&tx, attempt).await?;
            let held = self.desk.held_attempt(&tx, attempt).await?.expect("there");
            assert_eq!(held.state, State::ReviewPending);
            self.desk.review(&tx, (attempt, held.version), (&last, &ai), BY).await
        });
        assert_eq!(reviewed.await.expect("answered"), Reviewed::Done);
    }

    /// What the daemon, people and learners read.
    async fn look(&self, id: Uuid, first: Uuid) {
        let daemon = &self.daemon;
        let (_, until) = daemon.measured(None).await.expect("read");
        let before = until - jiff::SignedDuration::from_mins(1);
        daemon.measured(Some(before)).await.expect("read");
        daemon.standing().await.expect("read");
        daemon.drift().await.expect("read");
        assert!(
            !daemon.list(&ListFilter { limit: 10, ..ListFilter::default() }).await.expect("read").is_empty()
        );
        assert_eq!(daemon.stories(id).await.expect("read").len(), 2);
        assert!(!daemon.events(first).await.expect("read").is_empty());
        daemon.sla(HOUR.as_secs_f64()).await.expect("read");
        assert!(!daemon.dead_messages(10).await.expect("read").is_empty());
        let ticket = self.rng.uuid().as_bytes().repeat(2);
        let spent = daemon.pool().transaction("grading_later", async |tx| {
            assert!(daemon.make_ticket(&tx, &ticket, id).await?.is_some());
            daemon.spend_ticket(&tx, &ticket, id).await
        });
        assert!(spent.await.expect("spent").is_some());
        assert!(daemon.told(id).await.expect("read").is_some());
        let followed = daemon.followed(id).await.expect("read");
        daemon.told_of(id, followed.last().expect("an event")).await.expect("read");
        assert!(!daemon.happened(Some(before), 10).await.expect("read").0.is_empty());
    }

    /// Nothing of this round waits for anybody in the next one.
    async fn forget(&self, eyes: &Client, id: Uuid) {
        let forgotten =
            self.grader.pool().transaction("grading_take", async |tx| self.grader.forget(&tx, id).await);
        assert_eq!(forgotten.await.expect("forgotten"), 1);
        let over = format!(
            "UPDATE submissions SET status = 'purged' WHERE id = '{id}'; DELETE FROM mq.grading_request; DELETE FROM mq.grading_dlq;
             DELETE FROM grading.jobs WHERE submission_id = '{id}'"
        );
        eyes.batch_execute(&over).await.expect("over");
    }
}

/// A result with this score by each criterion.
fn result(score: f64, review: bool) -> GradingResult {
    let criterion = |name: &str| json!({"criterion": name, "score": score, "feedback": "", "evidence": [], "estimated": false});
    let criteria =
        ["task_achievement", "coherence_cohesion", "lexical_resource", "grammatical_range"].map(criterion);
    let document = json!({
        "v": 1, "overallScore": score, "band": "B2", "confidence": 95, "criteriaScores": criteria,
        "feedback": {"strengths": [], "weaknesses": [], "suggestions": []}, "reviewRequired": review,
        "reviewPriority": review.then_some("High"), "gradingMode": "auto", "auditFlag": false, "isLate": false, "indicative": true,
        "model": "m", "promptVersion": "p", "rubricVersion": "1",
    });
    serde_json::from_value(document).expect("a result")
}
