//! All statements of the router to its database, through its own stores and its own pool: a round says each
//! statement at least once. A round submits its own subjects, a handful of rows beside all that is there.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use devkit::forms::SubmissionSeed;
use devkit::postgres::TestDatabase;
use futures::future::join_all;
use maple_router::config::Config;
use maple_router::db::readiness::Readiness;
use maple_router::db::{Pool, PoolOptions};
use maple_router::grey_queue::store::ASSIGNED;
use maple_router::kernel::rows::{Attempts, Fence, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::ops::clock::SystemClock;
use maple_router::outbox::store::OutboxStore;
use maple_router::outbox::table::{Command, Outbox, State};
use maple_router::ports::RecordKind;
use maple_router::ports::{Fault, Outcome, RelayStatus, Reply, Stage, TicketRef};
use maple_router::routing::dead_letter::{Closing, Record};
use maple_router::routing::decide::replay::ReplayOptions;
use maple_router::routing::delivery::Seen;
use maple_router::routing::delivery::lost::Mail;
use maple_router::routing::pause::presence::Identity;
use maple_router::routing::pause::{Pause, Scope};
use maple_router::routing::store::alerts::AlertStore;
use maple_router::routing::store::backfill::BackfillScope;
use maple_router::routing::store::dead_letters::DeadLetterStore;
use maple_router::routing::store::delivery_notified::NotificationStore;
use maple_router::routing::store::ends::Ends;
use maple_router::routing::store::overrides::{Override, ReadinessOverrides, ScanResult};
use maple_router::routing::store::pauses::PauseTable;
use maple_router::routing::store::sweep::SweepBounds;
use maple_router::routing::store::view::{GroupBy, Selection, View};
use maple_router::routing::store::{ClaimRequest, Merged, RecordScope, Store};
use maple_router::routing::submission::ledger::FailReason;
use maple_router::routing::submission::message_id::Origin;
use maple_router::routing::submission::outcome::{Entries, SendContext};
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::forms::Forms;
use crate::grading::Grading;
use crate::retention::Retention;
use crate::review::Review;
use crate::screening::Screening;
use crate::uploads::Uploads;

const A: &str = "1|a@x.test";
const B: &str = "1|b@x.test";
const C: &str = "2|c@x.test";
const HOUR: Duration = Duration::from_secs(3600);
const OPERATOR: Override<'static> =
    Override { actor: "operator:test", verb: "replay", reason: Some("a test"), more: &Value::Null };
/// Rows of a page, and of a take.
const PAGE: usize = 16;

/// The stores of a daemon and of an operator beside it, on one connection each way.
pub(crate) struct Router {
    store: Store,
    outbox: OutboxStore,
    alerts: AlertStore,
    letters: DeadLetterStore,
    telling: NotificationStore,
    overrides: ReadinessOverrides,
    view: View,
    ends: Ends,
    pauses: PauseTable,
    bounds: SweepBounds,
    review: Review,
    uploads: Uploads,
    forms: Forms,
    retention: Retention,
    screening: Screening,
    grading: Grading,
    backend: Client,
    eyes: Client,
    with_schema: bool,
    backlog: bool,
}

impl Router {
    /// With schema `router` or without; `backlog`: more is open than a round could take.
    pub(crate) async fn on(db: &TestDatabase, with_schema: bool, backlog: bool) -> Self {
        let mut config = Config::default();
        config.database.url = db.url_as("forms_app");
        // One connection, so that its statements come of age: PostgreSQL plans anew only the first five times.
        config.database.max_connections = 1;
        config.database.statement_timeout = Duration::from_secs(120);
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let readiness = Readiness::new(None).expect("no column");
        Self {
            store: Store::new(pool.clone(), &readiness, &config, "host", "host/1"),
            outbox: OutboxStore::new(pool.clone(), "maple-router@test"),
            alerts: AlertStore::new(pool.clone(), &readiness, &config),
            letters: DeadLetterStore::new(pool.clone()),
            telling: NotificationStore::new(pool.clone()),
            overrides: ReadinessOverrides::new(pool.clone(), &readiness, None),
            view: View::new(pool.clone(), &readiness, &config),
            ends: Ends::new(pool.clone()),
            pauses: PauseTable::new(pool.clone()),
            review: Review::on(pool.clone()),
            uploads: Uploads::on(pool.clone()),
            forms: Forms::on(db, pool.clone()),
            retention: Retention::on(db, pool.clone()),
            screening: Screening::on(db, pool.clone()),
            grading: Grading::on(db, pool),
            bounds: SweepBounds::from(&config),
            backend: db.client_as("forms_app").await.expect("forms_app"),
            eyes: db.superuser().await.expect("superuser"),
            with_schema,
            backlog,
        }
    }

    /// Runs everything once.
    pub(crate) async fn round(&self) {
        self.route().await;
        self.sweep().await;
        self.tell().await;
        self.operate().await;
        self.look().await;
        if self.with_schema {
            self.deliver().await;
            self.keep_records().await;
            if !self.backlog {
                self.review.round(&self.eyes).await;
                let waiting = SubmissionSeed::of("f").attachment("a.pdf", "pending");
                self.uploads.round(&self.eyes, self.submit(&waiting).await).await;
                self.forms.round().await;
                let ended = self.ended().await;
                self.retention.round(&self.eyes, ended).await;
                self.screening.round(&self.eyes, &self.backend).await;
                self.grading.round(&self.eyes, &self.backend).await;
            }
        }
        // Rows that this round left open must not affect the next one.
        let over = "UPDATE submissions SET status = 'purged' WHERE id = ANY($1)";
        let left = "SELECT id FROM submissions WHERE status IN ('received', 'processing') AND routing_result <> '{}' LIMIT 100";
        let left: Vec<Uuid> =
            self.eyes.query(left, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect();
        self.eyes.execute(over, &[&left]).await.expect("ended");
    }

    async fn submit(&self, seed: &SubmissionSeed) -> Uuid {
        seed.insert(&self.backend).await.expect("submitted").id
    }

    /// A submission of this round that has ended, and that everybody was told of.
    async fn ended(&self) -> Uuid {
        let id = self.ready().await;
        let ledger =
            r#"{"v": 1, "finished": {"token": "t", "at": "2026-01-01T00:00:00Z", "status": "routed"}}"#;
        let end = format!(
            "UPDATE submissions SET status = 'routed', routing_result = '{ledger}' WHERE id = '{id}';
             DELETE FROM router.outbox WHERE entity_id = '{id}'"
        );
        self.eyes.batch_execute(&end).await.expect("ended");
        id
    }

    async fn ready(&self) -> Uuid {
        self.submit(&SubmissionSeed::of("f").field("subject", "q").attachment("a.txt", "clean")).await
    }

    async fn claimed(&self, rows: usize) -> Vec<Uuid> {
        let mut ids = Vec::new();
        for _ in 0..rows {
            ids.push(self.ready().await);
        }
        let requests: Vec<_> = ids.iter().map(|id| ClaimRequest { id: *id, token: "t".to_owned() }).collect();
        self.store.claim(&requests).await.expect("claimed");
        ids
    }

    /// Steps 2 to 6, with every way out of them.
    async fn route(&self) {
        let store = &self.store;
        let ids = self.claimed(8).await;
        for id in &ids {
            store.content(*id).await.expect("read").expect("there");
        }
        let claims: Vec<_> = ids.iter().map(|id| (*id, "t".to_owned())).collect();
        assert_eq!(store.heartbeat(&claims).await.expect("a heartbeat").confirmed.len(), ids.len());
        let keys = [A, B].map(str::to_owned);
        join_all(ids.iter().map(|id| store.begin(*id, "t", &keys))).await;
        store.begin(ids[0], "stale", &keys).await.expect("answered");
        let tried = BTreeSet::from([1, 2]);
        let [first, second, third, fourth, fifth, sixth, seventh, eighth] = ids[..] else { panic!("eight") };
        let went = [
            (first, entries("n1", &[(A, accepted()), (B, accepted()), (C, accepted())])),
            (second, entries("n2", &[(A, accepted()), (B, Outcome::Refused(fault(550))), (C, accepted())])),
            (third, entries("n3", &[(A, Outcome::Deferred(fault(451))), (B, accepted()), (C, accepted())])),
            (fourth, entries("n4", &[(A, accepted()), (B, accepted())])),
        ];
        join_all(went.iter().map(|(id, sent)| store.record(scope(*id, &tried), sent))).await;
        // Each statement alone as well.
        let sent = entries("n5", &[(A, accepted()), (B, accepted()), (C, accepted())]);
        store.record(scope(fifth, &tried), &sent).await.expect("recorded");
        store.release(scope(sixth, &tried), true).await.expect("released");
        store.fail(scope(seventh, &tried), FailReason::Infected).await.expect("failed");
        store.merge_facts(eighth, "gone", &entries("n8", &[(A, accepted())]).facts).await.expect("merged");
        let made =
            Outcome::Created { ticket: TicketRef { id: 1, display_id: "D1".to_owned() }, also: Vec::new() };
        store
            .merge_facts(eighth, "gone", &entries("n10", &[("3|happyfox", made)]).facts)
            .await
            .expect("merged");
        let odd =
            "UPDATE submissions SET routing_result = routing_result || '{\"number\": 1e400}' WHERE id = $1";
        self.eyes.execute(odd, &[&first]).await.expect("no longer a document of ours");
        store.merge_facts(first, "gone", &entries("n9", &[(A, accepted())]).facts).await.expect("merged");
        let nobody =
            store.merge_facts(Uuid::from_u128(1), "t", &entries("n0", &[(A, accepted())]).facts).await;
        assert_eq!(nobody.expect("asked"), Merged::Gone);
        store.ended_by(fifth, "t").await.expect("asked");
        store.reset(eighth, "o", OPERATOR).await.expect("released");
        let replayed = store.replay(second, ReplayOptions::default(), OPERATOR, false).await;
        replayed.expect("replayed");
        let anew = ReplayOptions { replan: true, ..ReplayOptions::default() };
        store.replay(second, anew, OPERATOR, true).await.expect("asked");
        let seen = [(A, RelayStatus::Delivered), (B, RelayStatus::Bounced)]
            .map(|(key, status)| seen(fifth, key, status));
        store.record_seen(&seen, "me").await.expect("recorded");
        let lost = [Mail { submission_id: fifth, delivery: B.to_owned(), generation: 0 }];
        assert_eq!(self.telling.unnotified(&lost).await.expect("asked").len(), 1);
        self.telling.notified(&lost).await.expect("written");
        store.now().await.expect("the time");
        self.outbox.is_there().await.expect("asked");
    }

    /// Every part of a pass, each with something to find.
    async fn sweep(&self) {
        let (store, bounds) = (&self.store, &self.bounds);
        let stuck = self.claimed(3).await;
        let orphans = [self.ready().await, self.ready().await];
        let old = SubmissionSeed::of("f").age(24 * HOUR);
        self.submit(&old.clone().attachment("a.txt", "infected")).await;
        self.submit(&old.attachment("a.txt", "pending")).await;
        let back = "UPDATE submissions SET updated_at = now() - interval '1 day' WHERE id = ANY($1)";
        self.eyes.execute(back, &[&[stuck.as_slice(), &orphans].concat()]).await.expect("aged");
        let retaken = store.sweep_stuck(bounds, None, PAGE, "s", &[]).await.expect("swept").expect("alone");
        assert_eq!(retaken.rows.len(), 3);
        let found = store.sweep_orphans(bounds, PAGE, &[]).await.expect("swept").expect("alone");
        // Filling ten million rows takes longer than the bound of orphans: the rows that earlier rounds left open may be among them.
        if self.backlog {
            assert_eq!(found.rows.len(), PAGE);
        } else {
            let ids: Vec<Uuid> = found.rows.iter().map(|row| row.id).collect();
            assert!(orphans.iter().all(|orphan| ids.contains(orphan)), "{orphans:?} are not all of {ids:?}");
        }
        let refused =
            store.sweep_infected(bounds, None, PAGE, "s", &[]).await.expect("swept").expect("alone");
        assert_eq!(refused.rows.len(), 1);
        assert!(store.unready(bounds).await.expect("counted").count > 0);
        store.open_depths(bounds).await.expect("counted");
        store.ended_depths().await.expect("counted");
        store.sweep_count(bounds).await.expect("counted");
    }

    /// Notifies of failures: what this round refused and what the sweep did.
    async fn tell(&self) {
        let causes = self.alerts.unalerted().await.expect("asked");
        assert!(!causes.is_empty());
        for cause in &causes {
            let token = Uuid::from_u128(7);
            let leased = self.alerts.lease(&cause.cause, token, &[]).await.expect("leased");
            self.alerts.sample(&leased.rows).await.expect("read");
            self.alerts.give_back(token, &leased.rows).await.expect("given back");
            let leased = self.alerts.lease(&cause.cause, token, &[]).await.expect("leased");
            self.alerts.confirm(token, &leased.rows).await.expect("confirmed");
        }
        // A page of rows lies in as many pages as rows.
        self.alerts.late_infections(None, 4).await.expect("looked");
        let late = self.submit(&SubmissionSeed::of("f").attachment("a.txt", "infected")).await;
        let routed = "UPDATE submissions SET status = 'routed', routing_result =
          '{\"v\": 1, \"finished\": {\"token\": \"t\", \"at\": \"2026-01-01T00:00:00Z\", \"status\": \"routed\"}}' WHERE id = $1";
        self.eyes.execute(routed, &[&late]).await.expect("routed");
        let (token, rows) = (Uuid::from_u128(8), [late]);
        assert_eq!(self.alerts.lease_late(&rows, token, HOUR).await.expect("leased").len(), 1);
        assert_eq!(self.alerts.give_back_late(token, &rows).await.expect("given back").recorded, 1);
        assert_eq!(self.alerts.lease_late(&rows, token, HOUR).await.expect("leased").len(), 1);
        assert_eq!(self.alerts.confirm_late(token, &rows).await.expect("confirmed").recorded, 1);
        assert!(self.alerts.lease_late(&rows, token, HOUR).await.expect("asked").is_empty(), "notified once");
    }

    /// Runs an operator's verbs on one submission.
    async fn operate(&self) {
        let seed = SubmissionSeed::of("f")
            .attachment("a.txt", "pending")
            .insert(&self.backend)
            .await
            .expect("submitted");
        self.overrides.finalize(seed.id, OPERATOR).await.expect("finalized");
        self.overrides
            .set_scan_status(seed.attachments[0], ScanResult::Clean, OPERATOR)
            .await
            .expect("marked");
        self.overrides.note(seed.id, OPERATOR).await.expect("noted");
        self.backfill().await;
        self.view.look(seed.id).await.expect("looked").expect("there");
        self.view.audit(seed.id).await.expect("read").expect("readable");
        self.view.submissions_between(seed.id, seed.id, 11).await.expect("found");
        self.view.attachments_between(seed.attachments[0], seed.attachments[0], 11).await.expect("found");
        self.view.forms().await.expect("read");
        let ways = self.ends.ways().await.expect("asked");
        assert!(ways.audited, "{ways:?}");
        let place = self.ends.begin(ways).await.expect("begun");
        self.ends.rows(place.at, PAGE as i64).await.expect("read");
        self.ends.trail(place.audit, PAGE as i64).await.expect("read");
        self.pauses.now().await.expect("the time");
        self.letters.is_there().await.expect("asked");
        self.letters.standing(seed.id).await.expect("read").expect("there");
        self.letters.exhausted(Some(seed.id), false, 100).await.expect("read");
    }

    /// Opens a ticket that was deferred, and walks two pages in search of more.
    async fn backfill(&self) {
        let ticket = json!([{"action_order": 1, "action_type": "happyfox_template", "destination": ""}]);
        let ledger = json!({"v": 1, "plan": ticket, "deliveries": {"1|": {"state": "not_implemented"}}});
        let deferred = self.submit(&SubmissionSeed::of("f").status("routed").ledger(ledger)).await;
        let scope = BackfillScope { form: Some("f"), since: None };
        let first = self.store.backfill_page(None, PAGE, scope).await.expect("walked");
        self.store.backfill_page(first.next, PAGE, scope).await.expect("walked");
        let opened =
            self.store.backfill(deferred, &BTreeSet::new(), OPERATOR, false).await.expect("answered");
        assert!(opened.refusal().is_none(), "{opened:?}");
    }

    /// Runs the queries about everything: `status` and lists.
    async fn look(&self) {
        self.view.overview().await.expect("counted");
        self.view.audit_digests().await.expect("counted").expect("readable");
        self.letters.exhausted_count().await.expect("counted");
        let since = self
            .store
            .now()
            .await
            .expect("the time")
            .checked_sub(jiff::SignedDuration::from_hours(24))
            .expect("a day");
        self.view.undelivered(since).await.expect("counted");
        let failed = maple_router::routing::table::Status::Failed;
        let selection =
            Selection { status: vec![failed], within: Some(24 * HOUR), limit: 20, ..Selection::default() };
        self.view.list(&selection).await.expect("listed");
        self.view.list(&Selection { newest: true, ..selection.clone() }).await.expect("listed");
        let page = Selection { limit: 51, ..Selection::default() };
        let first = self.view.page(&page, None, 100).await.expect("listed").submissions;
        let behind = first.last().map(|last| (last.updated_at, last.id));
        let seldom = Selection { form: Some("a form of nobody".to_owned()), ..page };
        self.view.page(&seldom, behind, 100).await.expect("listed");
        self.view.grouped(&selection, GroupBy::Reason).await.expect("counted");
    }

    /// The outbox, as its consumer and its upkeep use it.
    async fn deliver(&self) {
        let outbox = &self.outbox;
        let ids = [self.ready().await, self.ready().await];
        outbox.announce(&ids, "operator").await.expect("announced");
        outbox.canary().await.expect("written");
        let (token, all) = (Uuid::from_u128(9), Kinds::AllBut(vec![ASSIGNED]));
        assert!(outbox.waits(State::Pending, &all).await.expect("looked"), "these do");
        let rows = outbox.claim(State::Pending, &all, PAGE, HOUR, token).await.expect("taken");
        assert!(rows.len() >= 3, "{}", rows.len());
        let assigned = Kinds::Only(vec![ASSIGNED]);
        let other = outbox.claim(State::Pending, &assigned, PAGE, HOUR, token).await.expect("taken");
        assert_eq!(other.len(), 0, "nobody was assigned");
        let leases: Vec<_> = rows.iter().map(|row| (row.id, token)).collect();
        outbox.extend(&leases, HOUR).await.expect("extended");
        let settlings: Vec<_> = rows.iter().enumerate().map(|(n, row)| settling(n, row.id, token)).collect();
        outbox.settle(&settlings).await.expect("settled");
        // One event whose lease runs out, and one whose time comes.
        outbox.claim(State::Pending, &all, 2, Duration::ZERO, token).await.expect("taken");
        outbox.wake(PAGE).await.expect("woken");
        outbox.redrive(rows[0].id, "operator:x", "a test").await.expect("redriven");
        outbox.depths().await.expect("counted");
        outbox.about(ids[0], 10).await.expect("read");
        let old = "UPDATE router.outbox SET delivered_at = now() - interval '30 days' WHERE id = $1";
        self.eyes.execute(old, &[&rows[1].id]).await.expect("aged");
        assert_eq!(outbox.prune(24 * 14 * HOUR, PAGE).await.expect("pruned"), 1);
        // The rest does not wait for the next round.
        if !self.backlog {
            let rest = outbox.claim(State::Pending, &all, 1000, HOUR, token).await.expect("taken");
            let settlings: Vec<_> = rest.iter().map(|row| settling(1, row.id, token)).collect();
            outbox.settle(&settlings).await.expect("settled");
        }
    }

    async fn keep_records(&self) {
        let letters = &self.letters;
        let id = Uuid::from_u128(u128::from(self.number().await));
        let record: Record = serde_json::from_value(json!({
            "id": id, "kind": RecordKind::Unreadable, "at": "2026-01-01T00:00:00Z", "reason": "no JSON",
            "payload_sha256": "0".repeat(64), "message_id": id.to_string(), "attributes": {},
        }))
        .expect("a record");
        assert!(letters.add(&record).await.expect("added"));
        letters.lease_unalerted(10, HOUR).await.expect("leased");
        letters.alerted(&[id]).await.expect("written");
        letters.list(true, 20).await.expect("listed");
        letters.open().await.expect("counted");
        letters.get(id).await.expect("read").expect("there");
        letters.close(id, Closing::Discarded, "operator:x", "a test").await.expect("closed");
        letters.exhausted(None, false, 20).await.expect("listed");
        let (id, submission) = (Uuid::from_u128(u128::from(self.number().await)), self.ready().await);
        let kind = RecordKind::UnknownSubmission;
        let named =
            Record { id, kind, submission_id: Some(submission), message_id: id.to_string(), ..record };
        assert!(letters.add(&named).await.expect("added"));
        let outbox = &self.outbox;
        assert!(outbox.dead_letter(id).await.expect("read").expect("there").known);
        let redrive = async |tx| {
            outbox.hold_dead_letter(&tx, id).await?;
            outbox.announce_in_place_of(&tx, (id, submission), "operator", ("operator:x", "a test")).await
        };
        outbox.pool().transaction("redrive", redrive).await.expect("redriven");
        let now = self.store.now().await.expect("the time");
        let pause = Pause {
            scope: Scope::Form("g".to_owned()),
            since: now,
            until: None,
            reason: "a test".to_owned(),
            actor: "operator:x".to_owned(),
        };
        self.pauses.put(&pause).await.expect("paused");
        self.pauses.list().await.expect("listed");
        let daemon =
            Identity { id: Uuid::from_u128(5), worker: "host/1".to_owned(), host: "host".to_owned() };
        self.pauses.beat(&daemon, None).await.expect("there");
        self.pauses.daemons().await.expect("listed");
        self.pauses.leave(daemon.id).await.expect("gone");
        self.pauses.remove(None).await.expect("resumed");
    }

    /// Returns a number not used before.
    async fn number(&self) -> u32 {
        let sql = "SELECT count(*) + 1 FROM router.dead_letters";
        u32::try_from(self.eyes.query_one(sql, &[]).await.expect("counted").get::<_, i64>(0)).expect("few")
    }
}

/// The first is given up on, the third fails, the fourth is given back; the others are delivered.
fn settling(place: usize, id: i64, token: Uuid) -> Write<Outbox> {
    let plain = |command| {
        let transition = Transition::of(State::Delivering, command, Who::WORKER).expect("an end");
        Write::plain(id, Fence::Lease(token), transition)
    };
    let reason = Some("no good".to_owned());
    let columns = Some(json!({"error": reason, "dead_letter": "unreadable"}));
    let pause = Some(Duration::ZERO);
    match place {
        0 => Write { reason, columns, ..plain(Command::GiveUp) },
        2 => Write { reason, columns, pause, ..plain(Command::Fail) },
        3 => Write { attempts: Attempts::Refund, pause, ..plain(Command::Release) },
        _ => plain(Command::Succeed),
    }
}

fn scope(id: Uuid, tried: &BTreeSet<i32>) -> RecordScope<'_> {
    RecordScope { id, token: "t", tried, pause: Duration::ZERO, refund: false }
}

fn reply(code: u16) -> Reply {
    Reply { code: Some(code), enhanced: None, reply: "said".to_owned() }
}

fn accepted() -> Outcome {
    Outcome::Accepted { reply: reply(250), queue_id: None }
}

fn fault(code: u16) -> Fault {
    Fault { stage: Stage::Rcpt, reply: reply(code), about_us: false }
}

fn entries(nonce: &str, outcomes: &[(&str, Outcome)]) -> Entries {
    let mut entries = Entries::default();
    for (key, outcome) in outcomes {
        let action_order = if *key == C { 2 } else { 1 };
        let context = SendContext {
            action_type: maple_router::routing::submission::plan::ActionType::EmailRaw,
            token: "t",
            nonce,
            attempt: 1,
            action_order,
            generation: 0,
            destination: "",
            message_id: Some("<m@x.test>"),
        };
        entries.add(&context, key, outcome);
    }
    entries
}

fn seen(id: Uuid, key: &str, status: RelayStatus) -> Seen {
    let address = key.split_once('|').map(|(_, address)| address.to_owned());
    Seen {
        origin: Origin { submission: id, action_order: 1, generation: 0 },
        recipient: address.unwrap_or_default(),
        status,
        at: None,
        queue_id: None,
        proved: false,
        message_id: None,
        dsn: Some("5.1.1".to_owned()),
        relay: None,
        text: "said".to_owned(),
    }
}
