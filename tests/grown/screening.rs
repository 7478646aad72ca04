//! The statements of screening: a run from its birth to a person's decision, and what the daemon, the publisher and people read. Part of a
//! round where the schemas are there.
//!
//! No judge is asked and no repository fetched: what they would say is written down as it would be.

use std::time::Duration;

use devkit::forms::SubmissionSeed;
use devkit::postgres::TestDatabase;
use maple_router::config::Database;
use maple_router::db::{Pool, PoolOptions};
use maple_router::kernel::rows::{Fence, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::ops::clock::SystemClock;
use maple_router::ops::rng::Rng;
use maple_router::screening::run::Profile;
use maple_router::screening::store::ScreeningStore;
use maple_router::screening::store::results::{
    Asked, KeptFinding, KeptSnapshot, KeptVerdict, ScanResult, ScanVerdict,
};
use maple_router::screening::store::setup::{Trial, WaiverReason};
use maple_router::screening::store::views::Chosen;
use maple_router::screening::table::{ADMIN, Command, JobType, Screening as Runs, State};
use serde_json::json;
use tokio_postgres::Client;
use uuid::Uuid;

const FORM: &str = "screened";
const HOUR: Duration = Duration::from_secs(3600);
const BY: (&str, &str) = ("operator:zoe", "a test");

/// Screening in one database: the screener's hands, the publisher's, the daemon's eyes, and the desk.
pub(crate) struct Screening {
    screener: ScreeningStore,
    publisher: ScreeningStore,
    daemon: ScreeningStore,
    desk: ScreeningStore,
}

impl Screening {
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
        Self {
            screener: ScreeningStore::new(pool("maple_screener"), "screener"),
            publisher: ScreeningStore::new(pool("forms_loader"), "operator:zoe"),
            daemon: ScreeningStore::new(daemon, "maple-router@test"),
            desk: ScreeningStore::new(pool("maple_desk"), "desk"),
        }
    }

    /// Says every statement once.
    pub(crate) async fn round(&self, eyes: &Client, backend: &Client) {
        assert!(self.daemon.is_there().await.expect("asked"));
        let form = format!("INSERT INTO forms (id, name) VALUES ('{FORM}', 'S') ON CONFLICT DO NOTHING");
        eyes.batch_execute(&form).await.expect("a form");
        self.set().await;
        let id =
            SubmissionSeed::of(FORM).field("subject", "q").insert(backend).await.expect("a submission").id;
        assert_eq!(self.screener.births(100).await.expect("a pass"), 0, "it was born at finalize");
        let run = self.daemon.one(id).await.expect("read").expect("a run").id;
        self.work(eyes, run).await;
        self.look(id, run).await;
        self.decide(eyes, id, run).await;
        assert!(self.publisher.disable(FORM).await.expect("set"));
    }

    /// What the publisher sets.
    async fn set(&self) {
        let publisher = &self.publisher;
        assert!(publisher.may_set().await.expect("asked") && publisher.is_form(FORM).await.expect("asked"));
        publisher.enable(FORM, (Profile::Fields, true, false), BY.0).await.expect("set");
        assert_eq!(self.daemon.forms().await.expect("read").len(), 1);
        let waived =
            publisher.waive(FORM, ("honeypot", None), WaiverReason::FalsePositive, (BY.1, BY.0)).await;
        let waiver = waived.expect("waived").expect("a waiver");
        assert!(!self.daemon.waivers(Some(FORM)).await.expect("read").is_empty());
        assert!(publisher.end_waiver(waiver, BY.0).await.expect("ended"));
        let trial = Trial {
            profile: Profile::Fields,
            model: "m".to_owned(),
            prompt: "p".to_owned(),
            items: 120,
            harmless: 60,
            answered: 120,
            false_approvals: 0,
            approves: true,
        };
        publisher.record_trial(&trial, BY.0).await.expect("recorded");
        assert!(self.screener.approves(Profile::Fields, "m", "p").await.expect("asked"));
    }

    /// What the screener does, up to a person.
    async fn work(&self, eyes: &Client, run: Uuid) {
        let (store, kinds) = (&self.screener, Kinds::Only(vec!["live"]));
        assert!(store.waits(State::Received, &kinds).await.expect("asked"));
        let token = Rng::from_system().uuid();
        let claimed = store.claim(State::Received, &kinds, 10, HOUR, token).await.expect("claimed");
        let row = claimed.iter().find(|row| row.id == run).expect("ours");
        store.extend(&[(row.id, token)], HOUR).await.expect("extended");
        let submitted = store.submitted(run, token, None, 5).await.expect("read").expect("leased");
        let (content, ruleset) = (submitted.digest.as_str(), "a");
        let columns = json!({"digest": content, "content": content});
        let to_rules = Transition::leading(
            State::Received,
            Command::NonVendorSubmission,
            State::Tier1Scanning,
            Who::WORKER,
        )
        .expect("an edge");
        let written =
            Write::<Runs> { columns: Some(columns), ..Write::plain(run, Fence::Lease(token), to_rules) };
        assert!(store.settle(&[written]).await.expect("settled").contains(&run));
        store.wake(100).await.expect("woken");
        let result = |score| ScanResult {
            content: content.to_owned(),
            ruleset: ruleset.to_owned(),
            verdict: ScanVerdict::Pass,
            score,
            detail: json!({"took_ms": 1}),
        };
        let finding = KeptFinding {
            rule: "link-count".to_owned(),
            severity: "note".to_owned(),
            place: "field subject".to_owned(),
            times: 1,
            waived: None,
        };
        store.record(run, (JobType::Tier1Scan, 1), &result(None), &[finding]).await.expect("kept");
        assert!(!self.daemon.is_blocked(run).await.expect("read"));
        assert_eq!(store.findings(run).await.expect("read").len(), 1);
        let snapshot = KeptSnapshot {
            url: "https://github.com/a/b".to_owned(),
            path: String::new(),
            reference: "main".to_owned(),
            commit: "0".repeat(40),
            content: content.to_owned(),
            files: 0,
            bytes: 0,
            declared: None,
            manifest: json!([]),
        };
        store.record_snapshot(run, &snapshot).await.expect("kept");
        let asked = Asked { content, model: "m", prompt: "p", ruleset };
        let verdict = KeptVerdict {
            model: "m".to_owned(),
            score: 70,
            injection: false,
            concerns: json!([]),
            tokens: (10, 10),
            took_ms: 1,
        };
        store.record_verdict(run, (1, 1), &asked, &verdict).await.expect("kept");
        assert_eq!(store.same_verdicts(&asked).await.expect("read").len(), 1);
        store.spend(FORM, 10).await.expect("counted");
        assert!(store.spent(FORM).await.expect("read").1 >= 30);
        // The way to a person, as it would be taken.
        let on = format!(
            "UPDATE screening.submissions SET state = 'TIER2_SCANNING' WHERE id = '{run}';
             UPDATE screening.submissions SET state = 'NEEDS_REVIEW', score = 70 WHERE id = '{run}'"
        );
        eyes.batch_execute(&on).await.expect("there");
    }

    /// What the daemon and people read.
    async fn look(&self, id: Uuid, run: Uuid) {
        let daemon = &self.daemon;
        let (_, until) = daemon.measured(None).await.expect("read");
        daemon.measured(Some(until - jiff::SignedDuration::from_mins(1))).await.expect("read");
        daemon.standing().await.expect("read");
        daemon.reconcile(100).await.expect("looked");
        let newest = daemon.list(&Chosen::default(), 10).await.expect("read");
        assert!(!newest.is_empty());
        let chosen = Chosen { subject: Some(id), ..Chosen::default() };
        assert_eq!(daemon.list(&chosen, 10).await.expect("read").len(), 1);
        assert!(!daemon.between(run, run, 3).await.expect("read").is_empty());
        assert!(daemon.story(run).await.expect("read").is_some());
        daemon.open_runs(FORM).await.expect("counted");
        daemon.jobs(None, false, 10).await.expect("read");
        daemon.sla(HOUR).await.expect("read");
        assert!(daemon.is_as_screened(run).await.expect("asked"));
    }

    /// What people do: a rejection, a redrive that is none, and another run.
    async fn decide(&self, eyes: &Client, id: Uuid, run: Uuid) {
        let desk = &self.desk;
        let decided = desk.pool().transaction("grey_queue_command", async |tx| {
            desk.lock_run(&tx, run).await?;
            let held = desk.hold_run(&tx, run).await?.expect("there");
            assert_eq!(held.state, State::NeedsReview);
            let reject = Transition::of(held.state, Command::AdminReject, ADMIN).expect("an edge");
            desk.decide(&tx, (run, held.version), reject, BY).await?;
            assert!(!desk.redrive(&tx, run).await?);
            assert!(!desk.is_screened_out(&tx, id).await?);
            desk.rescreen(&tx, id, BY).await
        });
        assert!(decided.await.expect("decided").1.is_some());
        // Nothing of this round waits for anybody in the next one.
        let over = format!("UPDATE submissions SET status = 'purged' WHERE id = '{id}'");
        eyes.batch_execute(&over).await.expect("over");
    }
}
