//! Dead letters. First what both sources promise: poison is set aside by itself, and people are notified. Then the
//! dead-letter subscription, Pub/Sub's alone: its letters are understood, kept where no row has them, and acked only then.
//! The outbox has no subscription to ack. What it gives up on becomes a record in the transaction that buries the row (the
//! tests `outbox`, `statements::what_is_given_up_on_becomes_a_dead_letter_and_a_redrive_closes_it`, and its rule
//! `outbox-buried` among the mutants); shown and closed it is in `verbs`
//! (`outbox::what_the_outbox_gave_up_on_is_shown_redriven_and_discarded`,
//! `without_broker::a_dead_letter_is_redriven_by_whoever_gave_up_on_it`).

use std::fs;
use std::time::Duration;

use devkit::forms::{Form, SubmissionSeed};
use devkit::postgres::{CuttingProxy, Trap};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Answer, DEAD_SUBSCRIPTION, DEAD_TOPIC, Source, Stage, StageOptions, TOPIC};
use maple_router::db::migrations::{self, ROUTER};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene, binary, stage_of};

/// Longer than the client gathers acks for.
const ACKS_TRAVEL: Duration = Duration::from_secs(2);
/// An outbox row is given up on soon, and then people are notified soon.
const SOON: &str = "[slack]\ngroup_wait = \"4s\"\n[outbox]\nbackoff_min = \"10ms\"\nbackoff_max = \"20ms\"";
const POISON: &str = "a secret of person@x.test that is no JSON";

fn form() -> Form {
    Form::new("f").mail_to("a@x.test")
}

async fn stage(with_schema: bool) -> Stage {
    let stage = stage_of(StageOptions::default(), &[form()]).await;
    if with_schema {
        let mut owner = stage.database.owner().await.expect("the owner");
        migrations::run(&mut owner, &ROUTER).await.expect("schema router");
    }
    stage
}

impl Scene {
    /// A scene with either source, schema router there, and a row that is given up on soon.
    async fn soon(source: Source) -> Self {
        match source {
            Source::Pubsub => Self::on(stage(true).await, SOON).await,
            Source::Postgres => Self::with(StageOptions::of(source), &[form()], SOON).await,
        }
    }

    /// An event that nobody can use: poison, or one that names no submission.
    async fn useless(&self, event: &Value) {
        match self.stage.source() {
            Source::Pubsub => drop(self.lay_down(&event.to_string())),
            Source::Postgres => {
                let sql = "INSERT INTO router.outbox (kind, payload) VALUES ('routing.ready', $1)";
                self.eyes.execute(sql, &[event]).await.expect("a row");
            }
        }
    }

    /// Waits until `n` records are kept and their source has settled the events they are of.
    async fn kept(&self, n: i64) {
        let count = "SELECT count(*) FROM router.dead_letters";
        self.until("records", async || {
            self.eyes.query_one(count, &[]).await.expect("counted").get::<_, i64>(0) == n
        })
        .await;
        if self.stage.source() == Source::Pubsub {
            self.all_acked(u64::try_from(n).expect("a count")).await;
        }
        self.settled().await;
    }

    /// A dead letter as Pub/Sub makes it.
    fn lay_down(&self, payload: &str) -> String {
        let attributes = [
            ("type", "routing.ready"),
            ("v", "1"),
            ("CloudPubSubDeadLetterSourceDeliveryCount", "5"),
            ("CloudPubSubDeadLetterSourceSubscription", "routing-worker"),
        ];
        self.stage.broker.publish(DEAD_TOPIC, payload.as_bytes().to_vec(), attributes).expect("published")
    }

    /// Every dead letter is acked.
    async fn all_acked(&self, n: u64) {
        self.until("acked dead letters", async || {
            let stats = self.stage.broker.stats(DEAD_SUBSCRIPTION).expect("stats");
            stats.acked == n && stats.outstanding == 0 && stats.backlog == 0
        })
        .await;
    }

    async fn counted_letters(&self, kind: &str) -> f64 {
        let series = format!("maple_router_dead_letters_total{{kind=\"{kind}\"}}");
        self.router.metric(&series).await.expect("metrics").expect("the series")
    }

    /// A verb with the router's own configuration: the state directory is its own.
    async fn dlq(&self, arguments: &[&str]) -> Answer {
        let arguments = [&["dlq"], arguments].concat();
        self.stage.ask(binary(), self.router.config(), &arguments).await.expect("the verb runs")
    }

    async fn dlq_json(&self, arguments: &[&str]) -> Value {
        let answer = self.dlq(&[arguments, &["--json"]].concat()).await;
        answer.json().unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }
}

fn event(id: Uuid) -> Value {
    json!({"submission_id": id})
}

fn only<'a>(list: &'a Value, kind: &str) -> &'a Value {
    let found: Vec<&Value> =
        list.as_array().expect("a list").iter().filter(|record| record["kind"] == kind).collect();
    let [one] = found.as_slice() else { panic!("{} of {kind}: {list:#}", found.len()) };
    one
}

devkit::with_either_source!(
    poison_goes_the_whole_way_by_itself,
    people_are_notified_once_of_each_kind_and_what_was_not_reported_is_reported_later,
);

async fn poison_goes_the_whole_way_by_itself(source: Source) {
    let scene = Scene::soon(source).await;
    let poison = POISON.as_bytes().to_vec();
    let reason = match source {
        Source::Pubsub => {
            scene.stage.broker.publish(TOPIC, poison, [("type", "?")]).expect("published");
            "unknown_type"
        }
        Source::Postgres => {
            scene.useless(&json!(POISON)).await;
            "it cannot be read"
        }
    };
    scene.kept(1).await;
    let list = scene.dlq_json(&["list"]).await;
    assert_eq!(only(&list, "unreadable")["reason"], reason, "{list:#}");
    assert!(!scene.router.log().contains("secret"), "payloads are not logged");
    assert_eq!(scene.stage.events().await.expect("stats").forwarded, 1, "once");
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed", "it is in nobody's way");
    scene.stop().await;
}

/// Thirty letters of two kinds are two messages; a letter nobody could be notified of is reported after a restart.
async fn people_are_notified_once_of_each_kind_and_what_was_not_reported_is_reported_later(source: Source) {
    let mut scene = Scene::soon(source).await;
    for n in 0..15 {
        scene.useless(&json!(format!("{POISON} {n}"))).await;
        scene.useless(&event(Uuid::from_u128(n))).await;
    }
    scene.kept(30).await;
    scene.until("confirmed alerts", async || silent(&scene).await == 0).await;
    let posted = scene.stage.slack.messages();
    assert_eq!(posted.len(), 2, "one for each kind: {posted:?}");
    let text = format!("{posted:?}");
    assert!(text.contains("maple-router dlq list") && !text.contains("secret"), "{text}");
    // Slack is away: the letter is kept and acked, and its alert waits in its record, over a restart.
    scene.stage.slack.down().await;
    scene.useless(&event(Uuid::from_u128(99))).await;
    scene.kept(31).await;
    let ended = scene.router.stop().await.expect("it ends");
    assert!(ended.success(), "{ended}");
    assert_eq!(silent(&scene).await, 1);
    scene.stage.slack.up().await.expect("Slack is back");
    scene
        .eyes
        .batch_execute("UPDATE router.dead_letters SET alert_leased_until = NULL")
        .await
        .expect("the lease has ended");
    scene.router = scene.stage.router(binary(), "router", SOON).await.expect("a router");
    scene.until("the last alert", async || silent(&scene).await == 0).await;
    assert_eq!(scene.stage.slack.messages().len(), 3);
    scene.stop().await;
}

/// The whole way, in both stores of records.
async fn kept_shown_and_closed(with_schema: bool) {
    let scene = Scene::on(stage(with_schema).await, "").await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply("451 4.3.0 later"));
    let spent = json!({"v": 1, "attempts": 5, "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}],
        "deliveries": {"1|a@x.test": {"state": "open"}}});
    let spent = scene.submit(&SubmissionSeed::of("f").ledger(spent)).await.id;
    scene.ended(spent).await;
    scene.lay_down(POISON);
    let nowhere = Uuid::from_u128(7);
    scene.lay_down(&event(nowhere).to_string());
    scene.lay_down(&event(spent).to_string());
    scene.all_acked(3).await;
    let list = scene.dlq_json(&["list"]).await;
    assert_eq!(list.as_array().map(Vec::len), Some(3), "{list:#}");
    let poison = only(&list, "unreadable");
    assert_eq!(
        (&poison["reason"], &poison["submission_id"]),
        (&json!("not_an_object"), &Value::Null),
        "{poison:#}"
    );
    assert!(poison["payload_sha256"].as_str().is_some_and(|hash| hash.len() == 64), "{poison:#}");
    assert_eq!(only(&list, "unknown_submission")["submission_id"], json!(nowhere));
    assert_eq!(only(&list, "exhausted")["id"], json!(spent));
    let file = scene.stage.dir().join("router/dead_letters.jsonl");
    assert_eq!(file.exists(), !with_schema, "the database where there is a place in it");
    assert!(
        !scene.router.log().contains("secret") && !scene.router.log().contains("person"),
        "payloads are not logged"
    );
    for kind in ["unreadable", "unknown_submission", "exhausted"] {
        assert!((scene.counted_letters(kind).await - 1.0).abs() < f64::EPSILON, "{kind}");
    }
    let id = poison["id"].as_str().expect("an id").to_owned();
    let shown = scene.dlq_json(&["show", &id]).await;
    let payload = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        shown["payload_base64"].as_str().expect("a payload"),
    );
    assert_eq!(payload.expect("base64"), POISON.as_bytes(), "{shown:#}");
    assert_eq!(shown["attributes"]["CloudPubSubDeadLetterSourceDeliveryCount"], "5", "{shown:#}");
    // Closing.
    assert_eq!(scene.dlq(&["discard", &id]).await.code, Some(2), "a reason is needed");
    let dry = scene.dlq_json(&["discard", &id, "--reason", "seen", "--dry-run"]).await;
    assert_eq!((&dry["changed"][0]["id"], &dry["dry_run"]), (&json!(id), &json!(true)), "{dry:#}");
    assert_eq!(scene.dlq_json(&["discard", &id, "--reason", "seen"]).await["changed"][0]["id"], json!(id));
    let again = scene.dlq(&["discard", &id, "--reason", "seen"]).await;
    assert!(again.code == Some(1) && again.out.contains("closed already"), "{again:?}");
    let closed = scene.dlq_json(&["show", &id]).await;
    assert_eq!(
        (&closed["closed"]["how"], &closed["closed"]["reason"]),
        (&json!("discarded"), &json!("seen"))
    );
    assert!(closed["closed"]["actor"].as_str().expect("an actor").starts_with("operator:"), "{closed:#}");
    // The submission comes after all: its event is published again, without Pub/Sub's own attributes.
    scene.stage.relay.clear_rules();
    scene
        .eyes
        .execute("INSERT INTO submissions (id, form_id) VALUES ($1, 'f')", &[&nowhere])
        .await
        .expect("a row");
    let redriven =
        scene.dlq_json(&["redrive", "--kind", "unknown_submission", "--reason", "it is there now"]).await;
    assert!(redriven["changed"][0]["message_id"].is_string(), "{redriven:#}");
    assert_eq!(scene.ended(nowhere).await.status, "routed");
    let redriven = scene.dlq_json(&["redrive", &spent.to_string(), "--reason", "the relay is back"]).await;
    assert_eq!(redriven["changed"][0]["id"], json!(spent), "{redriven:#}");
    let row = scene.await_row(spent, "end", |row| row.status == "routed").await;
    assert_eq!(row.ledger["overrides"][0]["verb"], "dlq redrive", "{row:?}");
    assert_eq!(scene.dlq_json(&["list"]).await, json!([]), "everything is closed");
    assert_eq!(scene.dlq_json(&["list", "--all"]).await.as_array().map(Vec::len), Some(2));
    scene.stop().await;
}

/// The policy of the review queue, by the daemon as it runs: a person is asked only where that does not help.
#[tokio::test]
async fn what_was_exhausted_is_routed_again_without_a_person() {
    let scene = Scene::on(
        stage(true).await,
        "[grey_queue]\nauto = [\"exhausted\"]\n[routing]\nsweep_interval = \"1s\"",
    )
    .await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply("451 4.3.0 later"));
    let spent = json!({"v": 1, "attempts": 5, "plan": [{"action_order": 1, "action_type": "email_raw", "destination": "a@x.test"}],
        "deliveries": {"1|a@x.test": {"state": "open"}}});
    let spent = scene.submit(&SubmissionSeed::of("f").ledger(spent)).await.id;
    assert_eq!(scene.ended(spent).await.status, "failed");
    scene.stage.relay.clear_rules();
    let row = scene.await_row(spent, "end", |row| row.status == "routed").await;
    let noted = &row.ledger["overrides"][0];
    assert_eq!(
        (&noted["verb"], &noted["reason"]),
        (&json!("replay"), &json!("the review's policy")),
        "{row:?}"
    );
    assert!(noted["review"].is_string(), "its attempt is named: {row:?}");
    scene.stop().await;
}

#[tokio::test]
async fn records_are_kept_in_schema_router_where_it_is() {
    kept_shown_and_closed(true).await;
}

#[tokio::test]
async fn records_are_kept_in_the_state_directory_where_it_is_not() {
    kept_shown_and_closed(false).await;
}

#[tokio::test]
async fn an_open_row_is_left_to_the_sweep_and_an_ended_one_is_done() {
    let scene = Scene::on(stage(true).await, "").await;
    let open =
        SubmissionSeed::of("f").attachment("a", "pending").insert(&scene.backend).await.expect("a row").id;
    let purged = SubmissionSeed::of("f").status("purged").insert(&scene.backend).await.expect("a row").id;
    let before = scene.row(open).await;
    scene.lay_down(&event(open).to_string());
    scene.lay_down(&event(purged).to_string());
    scene.all_acked(2).await;
    assert!((scene.counted_letters("premature").await - 1.0).abs() < f64::EPSILON);
    assert!((scene.counted_letters("closed").await - 1.0).abs() < f64::EPSILON);
    assert_eq!(scene.row(open).await, before, "nothing is written");
    assert_eq!(scene.dlq_json(&["list"]).await, json!([]));
    scene.stop().await;
}

#[tokio::test]
async fn nothing_is_acked_before_it_is_kept_and_nothing_is_kept_twice() {
    let stage = stage(true).await;
    let proxy = CuttingProxy::start(&stage.database).await.expect("a proxy");
    let extra = format!("[database]\nurl = \"{}\"", proxy.url_as("forms_app"));
    let scene = Scene::on(stage, &extra).await;
    let trapped = proxy.trap(Trap::CommitSent("dead_letter"), 1);
    let answer_lost = proxy.trap(Trap::CommitAnswered("dead_letter"), 1);
    scene.lay_down(POISON);
    trapped.hit(PATIENCE).await.expect("it is being kept");
    // An ack that should not be would have arrived by now.
    tokio::time::sleep(ACKS_TRAVEL).await;
    let stats = scene.stage.broker.stats(DEAD_SUBSCRIPTION).expect("stats");
    assert_eq!((stats.acked, stats.outstanding), (0, 1), "{stats:?}");
    // The first try is lost, of the second only the answer.
    trapped.cut();
    answer_lost.hit(PATIENCE).await.expect("it is tried again");
    answer_lost.cut();
    scene.all_acked(1).await;
    let count = "SELECT count(*) FROM router.dead_letters";
    assert_eq!(
        scene.eyes.query_one(count, &[]).await.expect("counted").get::<_, i64>(0),
        1,
        "known by its id"
    );
    let entries = "SELECT count(*) FROM router.grey_queue WHERE subject_kind = 'dead_letter'";
    assert_eq!(
        scene.eyes.query_one(entries, &[]).await.expect("counted").get::<_, i64>(0),
        1,
        "and so its entry"
    );
    scene.stop().await;
}

#[tokio::test]
async fn a_letter_that_cannot_be_kept_waits() {
    let stage = stage(false).await;
    let state = stage.dir().join("taken");
    let scene = Scene::on(stage, &format!("[state]\ndir = \"{}\"", state.display())).await;
    let aside = scene.stage.dir().join("aside");
    fs::rename(&state, &aside).expect("it was there");
    fs::write(&state, "no directory").expect("a file");
    scene.lay_down(POISON);
    scene
        .await_line("complaint", |line| {
            line["message"].as_str().is_some_and(|text| text.contains("waits until it can be kept"))
        })
        .await;
    assert_eq!(scene.stage.broker.stats(DEAD_SUBSCRIPTION).expect("stats").acked, 0);
    fs::remove_file(&state).expect("the way is free");
    fs::rename(&aside, &state).expect("it is back");
    scene.all_acked(1).await;
    scene.stop().await;
}

/// Records not yet notified.
async fn silent(scene: &Scene) -> i64 {
    let sql = "SELECT count(*) FROM router.dead_letters WHERE alerted_at IS NULL";
    scene.eyes.query_one(sql, &[]).await.expect("counted").get(0)
}
