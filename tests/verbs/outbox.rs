//! The outbox as operators see it: what `explain` says of a submission's event, `status` of all of them, and what `dlq`
//! does with what was given up on. No broker, and no `[pubsub]` in the configuration.

use std::sync::Arc;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::stage::{Answer, Source, Stage, StageOptions};
use maple_router::config::Config;
use maple_router::db::migrations::{self, ROUTER};
use maple_router::db::{Pool, PoolOptions};
use maple_router::kernel::rows::{Attempts, Fence, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::ops::clock::SystemClock;
use maple_router::outbox::store::OutboxStore;
use maple_router::outbox::table::{Command, Outbox, State};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{binary, explained, fits_a_screen, json_of, run, run_beside, seed, shown, status};

const HOUR: Duration = Duration::from_secs(3600);

/// A stage with an outbox, and hands in it.
struct Scene {
    stage: Stage,
    store: OutboxStore,
    eyes: tokio_postgres::Client,
}

impl Scene {
    async fn new() -> Self {
        let options =
            StageOptions { sample_forms: false, source: Source::Postgres, ..StageOptions::default() };
        let stage = Stage::start(options).await.expect("a stage");
        let forms = [Form::new("contact").mail_to("a@example.org")];
        devkit::forms::load_into(&stage.database, &forms).await.expect("forms");
        let mut owner = stage.database.owner().await.expect("the owner");
        migrations::run(&mut owner, &ROUTER).await.expect("schema router");
        let mut config = Config::default();
        config.database.url = stage.database.url_as("forms_app");
        let pool = Pool::new(&config.database, PoolOptions::new(Arc::new(SystemClock))).expect("a pool");
        let eyes = stage.database.superuser().await.expect("superuser");
        Self { store: OutboxStore::new(pool, "maple-router@test"), stage, eyes }
    }

    async fn alter(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect("altered");
    }

    async fn submitted(&self, age: Duration) -> Uuid {
        seed(&self.stage, SubmissionSeed::of("contact").age(age)).await.id
    }

    /// Takes every row that is due, and ends it so.
    async fn settle(&self, command: Command, unreadable: bool) {
        self.store.wake(100).await.expect("woken");
        let token = Uuid::from_u128(77);
        let rows = self
            .store
            .claim(State::Pending, &Kinds::AllBut(Vec::new()), 100, HOUR, token)
            .await
            .expect("claimed");
        let why = if unreadable { "it cannot be read" } else { "it names a submission that does not exist" };
        let transition = Transition::of(State::Delivering, command, Who::WORKER).expect("an end");
        let kind = if unreadable { "unreadable" } else { "unknown_submission" };
        let columns = match command {
            Command::Succeed => Some(json!({"message_id": "4711"})),
            Command::Fail | Command::GiveUp => Some(json!({"error": why, "dead_letter": kind})),
            Command::Claim | Command::Release | Command::Expire | Command::FallDue | Command::Redrive => None,
        };
        let settling = |id| Write {
            attempts: if command == Command::Release { Attempts::Refund } else { Attempts::Keep },
            pause: (command == Command::Fail).then_some(HOUR),
            reason: matches!(command, Command::Fail | Command::GiveUp).then(|| why.to_owned()),
            columns: columns.clone(),
            ..Write::plain(id, Fence::Lease(token), transition)
        };
        let settlings: Vec<Write<Outbox>> = rows.iter().map(|row| settling(row.id)).collect();
        self.store.settle(&settlings).await.expect("settled");
    }

    /// The page is a screen, tells the cause and the command, and is as it was.
    async fn explains(&self, name: &str, id: Uuid, cause: &str, command: &str) {
        let answer = run_beside(&self.stage, &["explain", &id.to_string()]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        fits_a_screen(&answer.out);
        let words = answer.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(cause) && words.contains(command), "{cause} / {command}:\n{}", answer.out);
        shown(&format!("trouble_{name}"), &answer.out);
    }

    async fn dlq(&self, words: &[&str]) -> Answer {
        run(&self.stage, &[&["dlq"], words].concat()).await
    }

    async fn letters(&self) -> Vec<Value> {
        json_of(&self.stage, &["dlq", "list", "--json"]).await.as_array().expect("a list").clone()
    }

    async fn states(&self) -> Vec<String> {
        let rows = self.eyes.query("SELECT state FROM router.outbox ORDER BY id", &[]).await.expect("rows");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test]
async fn explain_tells_where_the_event_is_and_what_to_do_about_it() {
    let scene = Scene::new().await;
    let waiting = scene.submitted(HOUR).await;
    let explanation = explained(&scene.stage, waiting).await;
    let [event] = &explanation["events"].as_array().expect("events")[..] else {
        panic!("one event: {explanation:#}")
    };
    assert_eq!(
        (&event["state"], &event["reason"], &event["tries"]),
        (&json!("pending"), &json!("finalized"), &json!(0))
    );
    assert!(
        explanation["why"].as_str().is_some_and(|why| why.contains("nobody has tried to deliver it")),
        "{explanation:#}"
    );
    scene.settle(Command::Fail, true).await;
    let cause = "its event waits in the outbox since";
    scene.explains("event_waits", waiting, cause, "maple-router check").await;
    scene.alter("UPDATE router.outbox SET available_at = now()").await;
    scene.settle(Command::GiveUp, true).await;
    let letter = scene.letters().await[0]["id"].as_str().expect("an id").to_owned();
    let redrive = format!("maple-router dlq redrive {letter} --reason TEXT");
    scene
        .explains("event_given_up", waiting, "its event was given up on (it cannot be read)", &redrive)
        .await;
    let mended = scene.dlq(&["redrive", &letter, "--reason", "mended"]).await;
    assert_eq!(mended.code, Some(0), "{mended:?}");
    scene.settle(Command::Succeed, false).await;
    let cause = "its event was published as message 4711 at";
    scene.explains("event_delivered", waiting, cause, "maple-router publish").await;

    // No event is written for a submission while the triggers are away.
    scene.alter("ALTER TABLE submissions DISABLE TRIGGER USER").await;
    let silent = scene.submitted(HOUR).await;
    scene.alter("ALTER TABLE submissions ENABLE TRIGGER USER").await;
    scene
        .explains(
            "no_event",
            silent,
            "has no event at all: the triggers of schema router",
            "maple-router check",
        )
        .await;
    let explanation = explained(&scene.stage, silent).await;
    let commands: Vec<&str> =
        explanation["remedy"].as_array().expect("remedy").iter().filter_map(Value::as_str).collect();
    let publish = format!("maple-router publish {silent}");
    assert!(commands.contains(&publish.as_str()), "{commands:?}");
    assert_eq!(run(&scene.stage, &["publish", &silent.to_string()]).await.code, Some(0));
    assert_eq!(explained(&scene.stage, silent).await["events"][0]["reason"], "operator");
}

#[tokio::test]
async fn status_counts_what_waits_and_what_was_given_up_on() {
    let scene = Scene::new().await;
    let none = json!({"pending": 0, "delivering": 0, "oldest_seconds": 0, "dead_letter": 0});
    assert_eq!(status(&scene.stage).await["outbox"], none);
    scene.submitted(HOUR).await;
    scene.settle(Command::GiveUp, true).await;
    scene.submitted(HOUR).await;
    scene.settle(Command::Fail, true).await;
    scene.submitted(HOUR).await;
    scene
        .alter("UPDATE router.outbox SET available_at = now() - interval '7 min' WHERE state = 'pending'")
        .await;
    let report = status(&scene.stage).await;
    assert_eq!(
        (&report["outbox"]["pending"], &report["outbox"]["dead_letter"]),
        (&json!(2), &json!(1)),
        "{report:#}"
    );
    let oldest = report["outbox"]["oldest_seconds"].as_u64().expect("a number");
    assert!((420..600).contains(&oldest), "{report:#}");
    let text = run(&scene.stage, &["status"]).await.out;
    assert!(text.contains("2 wait (due for 7m), 1 given up on (maple-router dlq list)"), "{text}");
    scene.alter("DROP SCHEMA router CASCADE").await;
    assert_eq!(status(&scene.stage).await["outbox"], Value::Null);
}

#[tokio::test]
async fn what_the_outbox_gave_up_on_is_shown_redriven_and_discarded() {
    let scene = Scene::new().await;
    let id = scene.submitted(HOUR).await;
    scene.settle(Command::GiveUp, false).await;
    let [letter] = &scene.letters().await[..] else { panic!("one record") };
    assert_eq!(
        (&letter["kind"], &letter["origin"], &letter["submission_id"]),
        (&json!("unknown_submission"), &json!("outbox"), &json!(id))
    );
    let record = letter["id"].as_str().expect("an id").to_owned();
    let page = scene.dlq(&["show", &record]).await.out;
    let row = letter["outbox_row"].as_i64().expect("a row");
    for said in [
        format!("the outbox of schema router gave up on it: row {row}"),
        "has its row delivered again".to_owned(),
        "its row stays in the outbox as dead_letter".to_owned(),
        format!("\"submission_id\": \"{id}\""),
    ] {
        assert!(page.contains(&said), "{said}:\n{page}");
    }
    // Looking changes nothing.
    let dry = scene.dlq(&["redrive", &record, "--reason", "x", "--dry-run"]).await;
    assert_eq!((dry.code, scene.states().await), (Some(0), vec!["dead_letter".to_owned()]), "{dry:?}");
    let done = scene.dlq(&["redrive", &record, "--reason", "the row is there again"]).await;
    assert_eq!((done.code, scene.states().await), (Some(0), vec!["pending".to_owned()]), "{done:?}");
    assert_eq!(scene.letters().await, Vec::<Value>::new());
    let who = "SELECT actor, reason FROM router.transitions WHERE command = 'redrive'";
    let who = scene.eyes.query_one(who, &[]).await.expect("recorded");
    assert!(who.get::<_, String>(0).starts_with("operator:"));
    assert_eq!(who.get::<_, String>(1), "the row is there again");
    let again = scene.dlq(&["redrive", &record, "--reason", "x"]).await;
    assert!(again.code == Some(1) && again.out.contains("closed already"), "{again:?}");

    // Given up on once more, and not needed: the record is closed, the row stays what it is.
    scene.settle(Command::GiveUp, false).await;
    let record = scene.letters().await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(scene.dlq(&["discard", &record, "--reason", "deleted"]).await.code, Some(0));
    assert_eq!((scene.letters().await.len(), scene.states().await), (0, vec!["dead_letter".to_owned()]));

    // A record whose row is gone.
    scene.submitted(HOUR).await;
    scene.settle(Command::GiveUp, true).await;
    scene.alter("DELETE FROM router.outbox WHERE state = 'dead_letter'").await;
    let record = scene.letters().await[0]["id"].as_str().expect("an id").to_owned();
    let gone = scene.dlq(&["redrive", &record, "--reason", "x"]).await;
    assert!(gone.code == Some(1) && gone.out.contains("not there any more"), "{gone:?}");
    assert_eq!(scene.letters().await.len(), 1, "still open");
}

/// From the row to the message that people read, with a daemon that has no Pub/Sub configured.
#[tokio::test]
async fn people_are_notified_who_gave_up() {
    let scene = Scene::new().await;
    let settings =
        "[slack]\ngroup_wait = \"100ms\"\n[outbox]\nbackoff_min = \"10ms\"\nbackoff_max = \"20ms\"";
    let mut router = scene.stage.router(binary(), "router", settings).await.expect("a router");
    router.ready().await.expect("ready");
    scene.alter("INSERT INTO router.outbox (kind, payload) VALUES ('nobody.knows', '{\"a\": 1}')").await;
    let posted = async || {
        let messages = scene.stage.slack.messages();
        messages
            .iter()
            .map(devkit::slack::SlackMessage::visible_text)
            .find(|text| text.contains("outbox gave up"))
    };
    let mut text = None;
    for _ in 0..600 {
        text = posted().await;
        if text.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let text = text.unwrap_or_else(|| panic!("nobody was notified:\n{}", router.log()));
    assert!(text.contains("→ `maple-router dlq list`") && text.contains("section unreadable"), "{text}");
    assert!(router.log().contains("\"event\":\"dead_letter\""), "{}", router.log());
    let counted =
        router.metric("maple_router_dead_letters_total{kind=\"unreadable\"}").await.expect("metrics");
    assert_eq!(counted, Some(1.0));
    let series = "maple_router_outbox_transitions_total{command=\"give_up\"}";
    assert_eq!(router.metric(series).await.expect("metrics"), Some(1.0));
    router.stop().await.expect("stopped");
}
