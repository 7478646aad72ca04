//! From the Maildir into the rows: on a real database, as `forms_app`, one look at a time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{Cluster, Refusing, TestDatabase, Variant};
use devkit::submission::Row;
use maple_router::config::Config;
use maple_router::db::readiness::Readiness;
use maple_router::db::{Pool, PoolOptions};
use maple_router::gateway::bounces::Maildir;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use maple_router::ops::rng::Rng;
use maple_router::ports::{Clock, Outcome, RelayStatus, Reply};
use maple_router::routing::card::BOUNCES;
use maple_router::routing::delivery::sender::TRIAL;
use maple_router::routing::follow::returned::{Returns, ReturnsParts};
use maple_router::routing::outages::Outages;
use maple_router::routing::store::delivery::Unnotified;
use maple_router::routing::store::{ClaimRequest, Claimed, RecordScope, Store};
use maple_router::routing::submission::message_id::Origin;
use maple_router::routing::submission::outcome::{Entries, SendContext};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::harness::{deliver, list, ours, sample};

/// The recipient of the samples, alone in an action.
const B: &str = "1|b@example.net";
/// The same deliveries among other recipients, who read the same token.
const B_OF_TWO: &str = "2|b@example.net";
const A_OF_TWO: &str = "2|a@example.net";

pub(crate) struct Bench {
    store: Store,
    backend: Client,
    eyes: Client,
    db: TestDatabase,
    dir: PathBuf,
    incidents: Incidents,
    notices: Arc<Mutex<Vec<Unnotified>>>,
    _temporary: tempfile::TempDir,
}

fn config(url: String) -> Config {
    let mut config = Config::default();
    config.database.url = url;
    config.database.connect_timeout = std::time::Duration::from_secs(1);
    config
}

fn pool(config: &Config) -> Pool {
    Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool")
}

fn store(url: String) -> Store {
    let config = config(url);
    Store::new(pool(&config), &Readiness::new(None).expect("no column"), &config, "host", "host/1")
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let cluster = Cluster::shared().await.expect("a cluster");
        let db = cluster.database(Variant::default()).await.expect("a database");
        let form = Form::new("f").mail_to("b@example.net").mail_to("a@example.net, b@example.net");
        devkit::forms::load_into(&db, &[form]).await.expect("forms");
        let backend = db.client_as("forms_app").await.expect("forms_app");
        let eyes = db.superuser().await.expect("superuser");
        let temporary = tempfile::tempdir().expect("a directory");
        Self {
            store: store(db.url_as("forms_app")),
            backend,
            eyes,
            db,
            dir: temporary.path().join("bounces"),
            incidents: Incidents::new().0,
            notices: Arc::default(),
            _temporary: temporary,
        }
    }

    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    pub(crate) fn pool(&self) -> Pool {
        pool(&config(self.db.url_as("forms_app")))
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.with_file_name("state")
    }

    /// Wraps [`TestDatabase::refuse`].
    pub(crate) async fn refuse(&self, how: Refusing, ids: &[Uuid]) {
        self.db.refuse(how, ids).await.expect("altered");
    }

    /// A reader as a process that starts has it.
    fn returns(&self) -> Returns {
        self.returns_of(self.store.clone())
    }

    fn returns_of(&self, store: Store) -> Returns {
        let clock = Arc::new(SystemClock) as Arc<dyn Clock>;
        let notices = Arc::clone(&self.notices);
        Returns::new(ReturnsParts {
            maildir: Maildir::new(&self.dir),
            address: ours(),
            store,
            by: "returned@host".to_owned(),
            outages: Outages::idle(Arc::clone(&clock), &Arc::new(Rng::from_system())),
            incidents: self.incidents.clone(),
            clock,
            config: watch::channel(Arc::new(Config::default())).1,
            lost: Box::new(move |unnotified| notices.lock().expect("a lock").push(unnotified)),
        })
    }

    /// A submission whose mails the relay has accepted.
    pub(crate) async fn accepted(&self) -> Uuid {
        let id = SubmissionSeed::of("f").insert(&self.backend).await.expect("a row").id;
        let request = ClaimRequest { id, token: "t".to_owned() };
        let claimed = self.store.claim(&[request]).await.expect("an answer").remove(&id);
        assert!(matches!(claimed, Some(Claimed::Taken(_))), "{claimed:?}");
        let keys = [B, A_OF_TWO, B_OF_TWO].map(str::to_owned).to_vec();
        self.store.begin(id, "t", &keys).await.expect("begun");
        let mut entries = Entries::default();
        for key in &keys {
            let order = key.split('|').next().and_then(|order| order.parse().ok()).expect("an order");
            let context = SendContext {
                token: "t",
                nonce: "n",
                attempt: 1,
                action_order: order,
                action_type: maple_router::routing::submission::plan::ActionType::EmailRaw,
                generation: 0,
                destination: "",
                message_id: None,
            };
            let reply = Reply { code: Some(250), enhanced: None, reply: "Ok".to_owned() };
            entries.add(&context, key, &Outcome::Accepted { reply, queue_id: Some("Q".to_owned()) });
        }
        let tried = [1, 2].into();
        let pause = std::time::Duration::ZERO;
        let scope = RecordScope { id, token: "t", tried: &tried, pause, refund: false };
        self.store.record(scope, &entries).await.expect("recorded");
        id
    }

    async fn row(&self, id: Uuid) -> (String, Value, String) {
        let row = Row::read(&self.eyes, id).await.expect("the row");
        (row.status, row.ledger, row.updated_at)
    }

    pub(crate) async fn relay_entry(&self, id: Uuid, key: &str) -> Value {
        self.row(id).await.1["deliveries"][key]["relay"].clone()
    }

    async fn failures(&self, id: Uuid) -> Vec<Value> {
        let sql =
            "SELECT detail FROM audit_log WHERE submission_id = $1 AND action = 'email_failed' ORDER BY id";
        let rows = self.eyes.query(sql, &[&id]).await.expect("audit");
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn notices(&self) -> Vec<(Uuid, String, RelayStatus)> {
        let notices = self.notices.lock().expect("a lock");
        notices.iter().map(|lost| (lost.id, lost.key.clone(), lost.status)).collect()
    }
}

fn origin(submission: Uuid) -> Origin {
    Origin { submission, action_order: 1, generation: 0 }
}

#[tokio::test]
async fn a_mail_that_comes_back_is_recorded_then_moved_then_reported() {
    let bench = Bench::new().await;
    let id = bench.accepted().await;
    let before = bench.row(id).await;
    deliver(&bench.dir, "1.a.host", &sample("postfix-failed", origin(id)));
    bench.returns().look().await;
    let entry = bench.relay_entry(id, B).await;
    assert_eq!(
        (&entry["status"], &entry["dsn"], &entry["relay"], &entry["by"], &entry["queue_id"]),
        (&json!("bounced"), &json!("5.1.1"), &json!("mx.example.net"), &json!("returned@host"), &Value::Null)
    );
    assert!(entry["message_id"].as_str().is_some_and(|id| id.starts_with("<maple.")), "{entry}");
    assert_eq!(bench.relay_entry(id, B_OF_TWO).await, Value::Null, "the other action is as it was");
    let after = bench.row(id).await;
    assert_eq!((&after.0, &after.2), (&before.0, &before.2), "neither the status nor its time moves");
    let failures = bench.failures(id).await;
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (&failures[0]["error"]["stage"], &failures[0]["error"]["class"]),
        (&json!("delivery"), &json!("bounced"))
    );
    assert!(!failures[0].to_string().contains("b@example.net"), "{failures:?}");
    assert_eq!(bench.notices(), [(id, B.to_owned(), RelayStatus::Bounced)]);
    assert_eq!(
        (list(&bench.dir, "new").len(), list(&bench.dir, "cur")),
        (0, vec!["1.a.host:2,S".to_owned()])
    );
}

/// The other recipient of that action could have written it: people are notified, and no fact is recorded.
#[tokio::test]
async fn what_a_co_recipient_could_have_written_is_reported_and_no_fact() {
    let bench = Bench::new().await;
    let id = bench.accepted().await;
    let of_two = Origin { action_order: 2, ..origin(id) };
    deliver(&bench.dir, "1.delivered", &sample("postfix-delivered", of_two));
    bench.returns().look().await;
    assert_eq!(bench.relay_entry(id, B_OF_TWO).await, Value::Null, "that it got there proves nothing");
    deliver(&bench.dir, "2.failed", &sample("postfix-failed", of_two));
    bench.returns().look().await;
    let entry = bench.relay_entry(id, B_OF_TWO).await;
    assert_eq!((&entry["status"], &entry["claimed"]), (&json!("bounced"), &json!(true)));
    assert_eq!(bench.relay_entry(id, A_OF_TWO).await, Value::Null);
    assert_eq!(bench.failures(id).await, Vec::<Value>::new(), "it is not audited");
    let notices = bench.notices.lock().expect("a lock");
    assert!(
        notices.iter().all(|lost| lost.claimed && lost.key == B_OF_TWO) && !notices.is_empty(),
        "{notices:?}"
    );
}

/// Killed between the record and the move, or between the move and the alert.
#[tokio::test]
async fn what_is_read_again_changes_nothing_and_is_reported_until_people_know() {
    let bench = Bench::new().await;
    let id = bench.accepted().await;
    let mail = sample("postfix-failed", origin(id));
    deliver(&bench.dir, "1.a.host", &mail);
    bench.returns().look().await;
    let row = bench.row(id).await;
    // Before the move: it is in `new` as well.
    deliver(&bench.dir, "1.a.host", &mail);
    let mut next = bench.returns();
    next.look().await;
    assert_eq!((bench.row(id).await, bench.failures(id).await.len()), (row, 1));
    assert_eq!(list(&bench.dir, "cur").len(), 2, "neither took the other's place");
    // After it: kept mails are read once by each process.
    let all = |n: usize| vec![(id, B.to_owned(), RelayStatus::Bounced); n];
    assert_eq!(bench.notices(), all(3), "once as news, once from cur, once from new");
    next.look().await;
    assert_eq!(bench.notices(), all(3));
    bench.returns().look().await;
    assert_eq!(bench.notices(), all(5));
    let notified = json!({"told_at": "2026-11-22T00:00:00Z"});
    let sql =
        "UPDATE submissions SET routing_result = jsonb_set(routing_result, ARRAY['deliveries', $2, 'relay'],
               (routing_result->'deliveries'->$2->'relay') || $3) WHERE id = $1";
    bench.eyes.execute(sql, &[&id, &B, &notified]).await.expect("changed");
    bench.returns().look().await;
    assert_eq!(bench.notices(), all(5), "people know");
}

#[tokio::test]
async fn what_is_delivered_and_comes_back_later_is_lost() {
    let bench = Bench::new().await;
    let id = bench.accepted().await;
    for (name, mail, status) in [
        ("1.delayed", "postfix-delayed", "deferred"),
        ("2.delivered", "postfix-delivered", "delivered"),
        ("3.delayed", "postfix-delayed", "delivered"),
        ("4.failed", "postfix-failed", "bounced"),
        ("5.delivered", "postfix-delivered", "bounced"),
    ] {
        deliver(&bench.dir, name, &sample(mail, origin(id)));
        bench.returns().look().await;
        assert_eq!(bench.relay_entry(id, B).await["status"], json!(status), "{name}");
    }
    assert_eq!(bench.failures(id).await.len(), 1);
}

#[tokio::test]
async fn what_is_no_news_of_ours_is_kept_and_alerts_nobody() {
    let bench = Bench::new().await;
    let id = bench.accepted().await;
    let before = bench.row(id).await;
    let ours_but_other = [
        ("generation", Origin { generation: 7, ..origin(id) }),
        ("action", Origin { action_order: 9, ..origin(id) }),
        ("submission", origin(Uuid::from_u128(1))),
        ("trial", TRIAL),
    ];
    for (name, origin) in ours_but_other {
        deliver(&bench.dir, name, &sample("postfix-failed", origin));
    }
    for name in ["vacation", "away-outlook", "receipt"] {
        deliver(&bench.dir, name, &sample(name, origin(id)));
    }
    for name in ["person", "qmail", "exim-of-old", "complaint"] {
        deliver(&bench.dir, name, &sample(name, origin(id)));
    }
    let token = ours().sender(origin(id));
    deliver(
        &bench.dir,
        "forged",
        &sample("postfix-failed", origin(id)).replace(&token, "maple-bounces+aaaa@x.test"),
    );
    bench.returns().look().await;
    assert_eq!(bench.row(id).await, before);
    assert_eq!((bench.notices(), list(&bench.dir, "new").len()), (Vec::new(), 0));
    assert_eq!(
        list(&bench.dir, "cur"),
        [
            "action:2,S",
            "away-outlook:2,S",
            "generation:2,S",
            "receipt:2,S",
            "submission:2,S",
            "trial:2,S",
            "vacation:2,S"
        ]
    );
    assert_eq!(list(&bench.dir, ".unread/new"), ["complaint", "exim-of-old", "forged", "person", "qmail"]);
}

#[tokio::test]
async fn what_cannot_be_recorded_now_waits_where_it_is() {
    let bench = Bench::new().await;
    let (id, other) = (bench.accepted().await, bench.accepted().await);
    deliver(&bench.dir, "1.locked", &sample("postfix-failed", origin(id)));
    deliver(&bench.dir, "2.free", &sample("postfix-failed", origin(other)));
    let mut locker = bench.db.superuser().await.expect("a locker");
    let lock = locker.transaction().await.expect("a transaction");
    lock.query_one("SELECT id FROM submissions WHERE id = $1 FOR UPDATE", &[&id]).await.expect("locked");
    let mut returns = bench.returns();
    returns.look().await;
    assert_eq!(list(&bench.dir, "new"), ["1.locked"], "it holds nobody up");
    assert_eq!(bench.relay_entry(other, B).await["status"], json!("bounced"));
    lock.rollback().await.expect("let go");
    let nowhere = bench.db.url_as("forms_app").replace(bench.db.name(), "nowhere");
    bench.returns_of(store(nowhere)).look().await;
    assert_eq!((list(&bench.dir, "new").len(), bench.relay_entry(id, B).await), (1, Value::Null));
    returns.look().await;
    assert_eq!(
        (list(&bench.dir, "new").len(), bench.relay_entry(id, B).await["status"].clone()),
        (0, json!("bounced"))
    );
}

/// P9: a mail about a row that refuses its status stays where it is and is tried again; those behind it are not kept.
#[tokio::test]
async fn a_mail_whose_row_refuses_it_keeps_no_other_and_is_tried_again() {
    let bench = Bench::new().await;
    let (bad, good) = (bench.accepted().await, bench.accepted().await);
    bench.refuse(Refusing::Trigger, &[bad]).await;
    deliver(&bench.dir, "1.a.host", &sample("postfix-failed", origin(bad)));
    deliver(&bench.dir, "2.a.host", &sample("postfix-failed", origin(good)));
    let mut returns = bench.returns();
    for _ in 0..2 {
        returns.look().await;
        assert_eq!(bench.relay_entry(good, B).await["status"], json!("bounced"));
        assert_eq!(list(&bench.dir, "new"), ["1.a.host"], "neither lost nor set before a person");
    }
    bench.refuse(Refusing::Trigger, &[]).await;
    bench.returns().look().await;
    assert_eq!(bench.relay_entry(bad, B).await["status"], json!("bounced"));
    assert_eq!(list(&bench.dir, "new").len(), 0);
}

#[tokio::test]
async fn many_are_read_in_one_look_a_page_at_a_time() {
    let bench = Bench::new().await;
    let id = bench.accepted().await;
    for number in 0..450 {
        deliver(&bench.dir, &format!("{number:04}"), &sample("vacation", origin(id)));
    }
    deliver(&bench.dir, "9999", &sample("postfix-failed", origin(id)));
    bench.returns().look().await;
    assert_eq!((list(&bench.dir, "new").len(), list(&bench.dir, "cur").len()), (0, 451));
    assert_eq!(bench.relay_entry(id, B).await["status"], json!("bounced"));
}

#[tokio::test]
async fn a_maildir_that_cannot_be_used_is_an_incident_until_it_can() {
    let bench = Bench::new().await;
    std::fs::write(&bench.dir, "a file in its place").expect("written");
    let mut returns = bench.returns();
    returns.look().await;
    assert_eq!(bench.incidents.keys(), [BOUNCES]);
    std::fs::remove_file(&bench.dir).expect("removed");
    returns.look().await;
    assert_eq!(bench.incidents.keys(), []);
}
