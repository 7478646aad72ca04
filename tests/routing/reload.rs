//! A YAML reload in the middle of a submission: the loader deletes and inserts, so action ids change; the plan of a
//! submission in flight does not.

use devkit::forms::{Action, Form, SubmissionSeed, Template};
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::StageOptions;
use serde_json::json;

use crate::harness::{Scene, load, mail_text};

fn form(to: [&str; 2], subject: &str, body: &str) -> Form {
    let mut form = Form::new("f");
    form.templates.push(Template {
        id: "t".to_owned(),
        subject: subject.to_owned(),
        body_text: body.to_owned(),
        body_html: String::new(),
    });
    for destination in to {
        form.actions.push(Action {
            kind: "email_template".to_owned(),
            template: Some("t".to_owned()),
            destination: destination.to_owned(),
            subject: None,
            category: None,
        });
    }
    form
}

#[tokio::test]
async fn a_reload_between_two_attempts_changes_nothing_for_a_submission_in_flight() {
    let before = form(["a@x.test, b@x.test", "c@x.test"], "old subject", "old body");
    let scene = Scene::with(StageOptions::default(), &[before], "[mail]\nbody = \"template\"").await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("b@x.test").reply("451 4.3.0 later"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.await_row(id, "fact", |row| row.entry("2|c@x.test")["state"] == "accepted").await;
    assert_eq!(row.entry("1|b@x.test")["state"], "open", "{row:?}");
    let ids = "SELECT array_agg(id ORDER BY id) FROM actions";
    let old: Vec<i64> = scene.eyes.query_one(ids, &[]).await.expect("ids").get(0);
    // Other recipients, other order, one action less, another text.
    let after = form(["z@x.test, c@x.test", "a@x.test"], "new subject", "new body");
    load(&scene.stage, &[Form { actions: after.actions[..1].to_vec(), ..after.clone() }]).await;
    load(&scene.stage, &[after]).await;
    let new: Vec<i64> = scene.eyes.query_one(ids, &[]).await.expect("ids").get(0);
    assert!(old.iter().all(|id| !new.contains(id)), "the loader replaces actions: {old:?} {new:?}");
    scene.stage.relay.clear_rules();
    let ended = scene.ended(id).await;
    assert_eq!(ended.status, "routed", "{ended:?}");
    assert_eq!(ended.ledger["plan"], row.ledger["plan"], "the plan is the pinned one");
    let mails = scene.stage.relay.mails();
    let mut sent: Vec<String> = mails.iter().flat_map(|mail| mail.recipients.clone()).collect();
    sent.sort();
    assert_eq!(sent, ["a@x.test", "b@x.test", "c@x.test"], "each once, and nobody new");
    let (subject, body) =
        mail_text(mails.iter().find(|mail| mail.recipients == ["b@x.test"]).expect("b's mail"));
    assert_eq!(subject, "old subject");
    assert!(body.contains("old body"), "{body}");
    // The next submission has the new plan.
    scene.stage.relay.forget();
    let next = scene.submit(&SubmissionSeed::of("f")).await.id;
    let row = scene.ended(next).await;
    assert_eq!(row.ledger["plan"][0]["destination"], json!("z@x.test, c@x.test"), "{row:?}");
    let mails = scene.stage.relay.mails();
    assert_eq!(mails.iter().map(|mail| mail.recipients.len()).sum::<usize>(), 3);
    assert_eq!(mail_text(&mails[0]).0, "new subject");
    scene.stop().await;
}

#[tokio::test]
async fn a_form_that_lost_all_its_actions_still_ends_what_was_begun() {
    let scene = Scene::start(&[Form::new("f").mail_to("a@x.test")]).await;
    scene.stage.relay.rule(Rule::at(At::Rcpt).reply("451 4.3.0 later"));
    let id = scene.submit(&SubmissionSeed::of("f")).await.id;
    scene.await_row(id, "fault", |row| !row.entry("1|a@x.test")["error"].is_null()).await;
    load(&scene.stage, &[Form::new("f")]).await;
    scene.stage.relay.clear_rules();
    assert_eq!(scene.ended(id).await.status, "routed");
    assert_eq!(scene.stage.relay.mails().len(), 1);
    scene.stop().await;
}
