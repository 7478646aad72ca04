//! The follower of the relay's log and a row that refuses its status (P9): the others' statuses are recorded, the
//! log is read on, and pending statuses outlive the process.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use devkit::postgres::Refusing;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use maple_router::ops::rng::Rng;
use maple_router::ops::set_aside::{SET_ASIDE, SetAside};
use maple_router::ops::state_dir::StateDir;
use maple_router::ports::{
    Clock, LogBatch, LogEntry, LogLine, RecipientLine, RelayLog, RelayLogError, RelayStatus,
};
use maple_router::routing::delivery::tracker::Ours;
use maple_router::routing::follow::follower::{Follower, FollowerParts};
use maple_router::routing::follow::pending_notices::PendingNotices;
use maple_router::routing::outages::Outages;
use maple_router::routing::store::delivery_notified::NotificationStore;
use maple_router::routing::submission::message_id::{Origin, message_id};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::returns::Bench;

const B: &str = "1|b@example.net";
const PATIENCE: Duration = Duration::from_secs(30);

/// A log as it is given, batch by batch.
struct Script {
    batches: mpsc::UnboundedReceiver<Vec<LogLine>>,
    read: usize,
}

impl RelayLog for Script {
    fn read(&mut self, _: Duration) -> BoxFuture<'_, Result<LogBatch, RelayLogError>> {
        async move {
            let news = tokio::time::timeout(Duration::from_millis(50), self.batches.recv()).await;
            let lines = news.ok().flatten().unwrap_or_default();
            self.read += lines.len();
            Ok(LogBatch { lines, position: self.read.to_string(), caught_up: true, gap: None })
        }
        .boxed()
    }
}

/// Postfix's log lines of a mail that the next system refuses.
fn bounced(submission: Uuid) -> Vec<LogLine> {
    let id = || "4XYZ".to_owned();
    let origin = Origin { submission, action_order: 1, generation: 0 };
    let refused = RecipientLine {
        to: "b@example.net".to_owned(),
        original: None,
        status: RelayStatus::Bounced,
        dsn: Some("5.1.1".to_owned()),
        relay: None,
        text: "no such user".to_owned(),
    };
    [
        LogEntry::Received { id: id(), session: 1, client: Some(Ipv4Addr::LOCALHOST.into()) },
        LogEntry::MessageId { id: id(), message_id: message_id(origin, "it@example.org") },
        LogEntry::Active { id: id(), sender: "it@example.org".to_owned(), recipients: 2 },
        LogEntry::Recipient { id: id(), line: refused },
        LogEntry::Removed { id: id() },
    ]
    .map(|entry| LogLine { at: None, entry })
    .to_vec()
}

struct Following {
    log: mpsc::UnboundedSender<Vec<LogLine>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    incidents: Incidents,
    state: StateDir,
}

impl Following {
    async fn start(bench: &Bench) -> Self {
        let clock = Arc::new(SystemClock) as Arc<dyn Clock>;
        let (incidents, rng) = (Incidents::new().0, Arc::new(Rng::from_system()));
        let aside = SetAside::new(Arc::clone(&clock), Some(incidents.clone()));
        std::fs::create_dir_all(bench.state()).expect("a directory");
        let state = StateDir::new(&bench.state());
        let (follower, position) = Follower::resume(FollowerParts {
            store: bench.store(),
            state: state.clone(),
            outages: Outages::idle(Arc::clone(&clock), &rng).setting_aside(aside),
            pending_notices: PendingNotices::new(
                NotificationStore::new(bench.pool()),
                Duration::from_secs(60),
                Arc::clone(&clock),
                Arc::clone(&rng),
            ),
            clock,
            rng,
            incidents: incidents.clone(),
            alerts: None,
            ours: Ours::default(),
        })
        .await;
        let (log, batches) = mpsc::unbounded_channel();
        let script = Script { batches, read: position.parse().unwrap_or_default() };
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = tokio::spawn(async move { follower.run(Box::new(script), &stopping).await });
        Self { log, stop, task, incidents, state }
    }

    async fn stop(self) -> Value {
        self.stop.cancel();
        self.task.await.expect("it ends");
        let saved = self.state.read("relay_log.json", 1 << 20).await.expect("read").expect("kept");
        serde_json::from_slice(&saved).expect("JSON")
    }
}

async fn recorded(bench: &Bench, id: Uuid) {
    let so = async {
        while bench.relay_entry(id, B).await["status"] != json!("bounced") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, so).await.expect("recorded");
}

#[tokio::test]
async fn a_row_that_refuses_its_status_halts_nothing_and_its_status_outlives_the_process() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bench.accepted().await);
    }
    let following = Following::start(&bench).await;
    bench.refuse(Refusing::Check, &ids[..1]).await;
    let together: Vec<LogLine> = ids[..3].iter().flat_map(|id| bounced(*id)).collect();
    following.log.send(together).expect("read");
    for id in &ids[1..3] {
        recorded(&bench, *id).await;
    }
    following.log.send(bounced(ids[3])).expect("read");
    recorded(&bench, ids[3]).await;
    assert_eq!(bench.relay_entry(ids[0], B).await, Value::Null);
    assert_eq!(following.incidents.keys(), [SET_ASIDE]);
    let saved = following.stop().await;
    assert_eq!(saved["position"], "20", "the log was read on: {saved}");
    let kept = saved["pending"].as_array().expect("entries");
    assert_eq!(kept.len(), 1, "{saved}");
    assert_eq!(kept[0]["origin"]["submission"], json!(ids[0]), "{saved}");
    bench.refuse(Refusing::Check, &[]).await;
    let next = Following::start(&bench).await;
    recorded(&bench, ids[0]).await;
    assert_eq!(next.stop().await["pending"], json!([]));
}
