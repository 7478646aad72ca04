//! Replay, end to end: an operator has a submission routed again. Its mail goes out once more, and only what was asked
//! for; what the relay had accepted before stays accepted.

use devkit::forms::{Form, SubmissionSeed};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{Answer, Source, StageOptions};
use devkit::submission::Row;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Scene, binary, load};

impl Scene {
    async fn verb(&self, arguments: &[&str]) -> Answer {
        self.stage.verb(binary(), arguments).await.expect("the verb runs")
    }

    async fn replay(&self, id: Uuid, more: &[&str]) -> Answer {
        let id = id.to_string();
        let arguments = [&["replay", &id, "--reason", "mended"], more].concat();
        self.verb(&arguments).await
    }

    async fn status(&self, id: Uuid, wanted: &str) -> Row {
        self.await_row(id, wanted, |row| row.status == wanted).await
    }

    /// Recipient and Message-ID of every mail the relay has, in order.
    fn mails(&self) -> Vec<(String, String)> {
        let mails = self.stage.relay.mails();
        let each = |mail: &devkit::smtp::Mail| {
            let parsed = mail_parser::MessageParser::default().parse(&mail.raw).expect("a mail");
            let id = parsed.message_id().expect("a Message-ID").to_owned();
            mail.recipients.iter().map(|to| (to.clone(), id.clone())).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = mails.iter().flat_map(|mail| each(mail)).collect();
        all.sort();
        all
    }
}

fn mail(to: &str, id: Uuid, order: i32, generation: i32) -> (String, String) {
    (to.to_owned(), format!("maple.{}.{order}.{generation}@greenpeace.org", id.simple()))
}

fn extra(routing: &str) -> String {
    format!("[routing]\n{routing}\n")
}

async fn what_was_refused_is_sent_and_what_was_accepted_is_not_sent_again(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("b@x.test").reply("550 5.1.1 no such user"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.reason(), Some("refused"));
    scene.stage.relay.clear_rules();
    let answer = scene.replay(id, &["--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let report: Value = answer.json().expect("JSON");
    assert_eq!((&report["matched"], &report["changed"][0]["id"]), (&json!(1), &json!(id)), "{report:#}");
    assert_eq!(
        (&report["changed"][0]["deliveries"], &report["skipped"]),
        (&json!(1), &json!([])),
        "{report:#}"
    );
    let is_announced = match source {
        Source::Pubsub => report["changed"][0]["message_id"].is_string(),
        Source::Postgres => report["warnings"].as_array().is_none_or(Vec::is_empty),
    };
    assert!(is_announced, "it is announced: {report:#}");
    let row = scene.status(id, "routed").await;
    assert_eq!(row.attempts(), 1, "{row:?}");
    let every = [mail("a@x.test", id, 1, 0), mail("b@x.test", id, 1, 0), mail("c@x.test", id, 2, 0)];
    assert_eq!(scene.mails(), every, "each once, under the Message-ID it always had");
    let trail = scene.audited(id).await;
    assert_eq!(trail.iter().filter(|action| action.starts_with("submission_")).count(), 2, "{trail:?}");
    assert_eq!(row.ledger["overrides"][0]["finished"]["reason"], "refused", "{row:?}");
    scene.stop().await;
}

async fn what_was_exhausted_has_its_attempts_again(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, &extra("max_attempts = 2")).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).times(3).reply("451 4.3.0 later"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.reason(), Some("exhausted"));
    assert_eq!(scene.replay(id, &[]).await.code, Some(0));
    let row = scene.status(id, "routed").await;
    assert_eq!(row.attempts(), 2, "the first of them met the third 451: {row:?}");
    assert_eq!(scene.mails(), [mail("a@x.test", id, 1, 0)]);
    scene.stop().await;
}

async fn an_infected_one_is_replayed_once_it_is_clean_and_not_before(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test")]).await;
    let seeded = scene.submit(&SubmissionSeed::of("f").attachment("a", "infected")).await;
    assert_eq!(scene.ended(seeded.id).await.reason(), Some("infected"));
    let answer = scene.replay(seeded.id, &[]).await;
    assert!(answer.code == Some(1) && answer.out.contains("rb-008"), "{answer:?}");
    let attachment = seeded.attachments[0].to_string();
    scene.verb(&["mark-attachment", &attachment, "--clean", "--reason", "false positive"]).await;
    assert_eq!(scene.replay(seeded.id, &[]).await.code, Some(0));
    scene.status(seeded.id, "routed").await;
    assert_eq!(scene.mails(), [mail("a@x.test", seeded.id, 1, 0)]);
    scene.stop().await;
}

async fn what_was_on_hold_in_doubt_is_sent_because_the_operator_says_so(source: Source) {
    let forms = [Form::new("f").mail_to("a@x.test").mail_to("b@x.test")];
    let scene = Scene::with(StageOptions::of(source), &forms, &extra("in_doubt = \"hold\"")).await;
    // Lost after the dot, and not kept.
    scene.stage.relay.rule(Rule::at(At::Dot).to("a@x.test").times(1).disconnect());
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let on_hold = scene.ended(id).await;
    assert_eq!(on_hold.reason(), Some("in_doubt"), "{on_hold:?}");
    assert_eq!(scene.mails(), [mail("b@x.test", id, 2, 0)]);
    assert_eq!(scene.replay(id, &[]).await.code, Some(0));
    let row = scene.status(id, "routed").await;
    assert_eq!(scene.mails(), [mail("a@x.test", id, 1, 0), mail("b@x.test", id, 2, 0)]);
    assert_eq!(row.entry("1|a@x.test")["doubted"], true, "a duplicate could be explained: {row:?}");
    scene.stop().await;
}

async fn a_forced_action_goes_out_as_another_mail(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test, b@x.test").mail_to("c@x.test")]).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let answer = scene.replay(id, &[]).await;
    assert!(answer.code == Some(1) && answer.out.contains("--force-action"), "{answer:?}");
    assert_eq!(scene.replay(id, &["--force-action", "1"]).await.code, Some(0));
    let row = scene.await_row(id, "second end", |row| {
        row.status == "routed" && row.entry("1|a@x.test")["generation"] == 1
    });
    let row = row.await;
    let mut every = vec![
        mail("a@x.test", id, 1, 0),
        mail("a@x.test", id, 1, 1),
        mail("b@x.test", id, 1, 0),
        mail("b@x.test", id, 1, 1),
        mail("c@x.test", id, 2, 0),
    ];
    every.sort();
    assert_eq!(scene.mails(), every);
    let history = &row.entry("1|a@x.test")["history"][0];
    let former = format!("<maple.{}.1.0@greenpeace.org>", id.simple());
    assert_eq!(history["message_id"], former, "the former mail is not forgotten: {row:?}");
    let explanation: Value = scene.verb(&["explain", &id.to_string(), "--json"]).await.json().expect("JSON");
    assert_eq!(explanation["plan"][0]["generation"], 1, "{explanation:#}");
    assert_eq!(
        explanation["deliveries"][0]["duplicates"], 0,
        "another mail is no duplicate: {explanation:#}"
    );
    scene.stop().await;
}

async fn a_forced_delivery_goes_out_as_another_mail_to_that_recipient_alone(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test, b@x.test").mail_to("b@x.test")]).await;
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.status, "routed");
    let before = scene.row(id).await;
    let both = scene.replay(id, &["--force-delivery", "1|b@x.test", "--force-action", "1"]).await;
    assert_eq!(both.code, Some(2), "{both:?}");
    let unknown = scene.replay(id, &["--force-delivery", "1|c@x.test"]).await;
    assert!(unknown.code == Some(1) && unknown.out.contains("no such delivery"), "{unknown:?}");
    for generation in [1, 2] {
        let done = scene.replay(id, &["--force-delivery", "1|b@x.test", "--json"]).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        assert_eq!(done.json().expect("JSON")["changed"][0]["deliveries"], 1, "{done:?}");
        scene
            .await_row(id, "another end", |row| {
                row.status == "routed" && row.entry("1|b@x.test")["generation"] == generation
            })
            .await;
    }
    assert_eq!(
        scene.mails(),
        [
            mail("a@x.test", id, 1, 0),
            mail("b@x.test", id, 1, 0),
            mail("b@x.test", id, 1, 1),
            mail("b@x.test", id, 1, 2),
            mail("b@x.test", id, 2, 0),
        ]
    );
    let row = scene.row(id).await;
    assert_eq!(row.entry("1|a@x.test"), before.entry("1|a@x.test"), "the neighbour has its mail");
    assert_eq!(row.entry("2|b@x.test"), before.entry("2|b@x.test"), "so has the other action");
    let page = scene.verb(&["explain", &id.to_string()]).await.out;
    assert!(page.contains("mended, delivery 2/2 of action 1"), "{page}");
    scene.stop().await;
}

async fn a_corrected_form_is_taken_with_replan(source: Source) {
    let scene = Scene::of(source, &[Form::new("f").mail_to("a@x.test, typo@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("typo@x.test").reply("550 5.1.1 no such user"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    assert_eq!(scene.ended(id).await.reason(), Some("refused"));
    load(&scene.stage, &[Form::new("f").mail_to("a@x.test, right@x.test")]).await;
    assert_eq!(scene.replay(id, &["--replan"]).await.code, Some(0));
    let row = scene.status(id, "routed").await;
    assert_eq!(scene.mails(), [mail("a@x.test", id, 1, 0), mail("right@x.test", id, 1, 0)]);
    assert_eq!(row.entry("1|typo@x.test"), &Value::Null, "{row:?}");
    scene.stop().await;
}

/// Pub/Sub alone: it is about an end of Pub/Sub.
#[tokio::test]
async fn filters_choose_a_dry_run_tells_and_the_end_of_pubsub_stops_nobody() {
    let scene =
        Scene::of(Source::Pubsub, &[Form::new("f").mail_to("a@x.test"), Form::new("g").mail_to("a@x.test")])
            .await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply("550 5.1.1 no such user"));
    let mut ids = Vec::new();
    for form in ["f", "f", "f", "g"] {
        let id = scene.submit(&SubmissionSeed::of(form)).await.id;
        scene.ended(id).await;
        ids.push(id);
    }
    scene.stage.relay.clear_rules();
    let reason = ["--reason", "mended"];
    let bulk = async |more: &[&str]| scene.verb(&[&["replay"], &reason[..], more].concat()).await;
    assert_eq!(bulk(&[]).await.code, Some(2), "nothing is chosen");
    assert_eq!(scene.verb(&["replay", "--form", "f"]).await.code, Some(2), "a reason is needed");
    assert_eq!(
        scene.verb(&["replay", "--form", "f", "--reason", ""]).await.code,
        Some(2),
        "a reason with words"
    );
    assert_eq!(bulk(&["--reason-code", "exhausted", "--json"]).await.json().expect("JSON")["matched"], 0);
    let dry = bulk(&["--form", "f", "--dry-run", "--json"]).await.json().expect("JSON");
    assert_eq!((&dry["matched"], &dry["dry_run"]), (&json!(3), &json!(true)), "{dry:#}");
    assert_eq!(scene.row(ids[0]).await.status, "failed");
    let unasked = bulk(&["--form", "f", "--limit", "2"]).await;
    assert!(unasked.code == Some(2) && unasked.err.contains("nobody can be asked"), "{unasked:?}");
    assert_eq!(scene.row(ids[0]).await.status, "failed");
    let two = bulk(&["--form", "f", "--limit", "2", "--yes", "--json"]).await;
    assert_eq!(two.json().expect("JSON")["matched"], 2, "{two:?}");
    for id in &ids[..2] {
        scene.status(*id, "routed").await;
    }
    // The others without Pub/Sub: it is done, and said.
    let text =
        scene.stage.config("down", 0, "").replace(&scene.stage.broker.endpoint(), "http://127.0.0.1:9");
    let config = scene.stage.write_config("down", &text).expect("written");
    let named = [ids[2].to_string(), ids[3].to_string(), ids[0].to_string()];
    let arguments = [&["replay", &named[0], &named[1], &named[2]], &reason[..], &["--json"]].concat();
    let answer = scene.stage.ask(binary(), &config, &arguments).await.expect("the verb runs");
    let report: Value = answer.json().expect("JSON");
    assert_eq!((answer.code, report["changed"].as_array().map(Vec::len)), (Some(1), Some(2)), "{answer:?}");
    assert_eq!(report["skipped"][0]["id"], json!(ids[0]), "the routed one: {report:#}");
    assert!(report["warnings"][0].as_str().expect("a warning").contains("sweep"), "{report:#}");
    assert_eq!(scene.row(ids[3]).await.status, "received");
    scene.stop().await;
}

devkit::with_either_source!(
    what_was_refused_is_sent_and_what_was_accepted_is_not_sent_again,
    what_was_exhausted_has_its_attempts_again,
    an_infected_one_is_replayed_once_it_is_clean_and_not_before,
    what_was_on_hold_in_doubt_is_sent_because_the_operator_says_so,
    a_forced_action_goes_out_as_another_mail,
    a_forced_delivery_goes_out_as_another_mail_to_that_recipient_alone,
    a_corrected_form_is_taken_with_replan,
);
