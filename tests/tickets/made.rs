//! Tickets that are made, and those that the help desk does not take: one outcome each, with the mail beside it.

use devkit::forms::{Form, SubmissionSeed};
use devkit::help_desk::{Act, Call, Rule, Stage};
use serde_json::json;

use crate::scene::Scene;

#[tokio::test]
async fn a_ticket_is_made_once_and_its_mail_goes_beside_it() {
    let scene = Scene::start("").await;
    let id = scene.submit().await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    let tickets = scene.desk.tickets();
    let [ticket] = tickets.as_slice() else { panic!("{tickets:?}") };
    assert_eq!(ticket.category, "General");
    assert_eq!((ticket.contact.name.as_str(), ticket.contact.email.as_str()), ("Ada", "ada@example.org"));
    assert_eq!(ticket.tags, [Scene::tag(id)]);
    let entry = row.entry("1|happyfox");
    assert_eq!(entry["state"], "accepted", "{row:?}");
    // What people see has a `#` that a search does not want.
    let display_id = ticket.display_id.trim_start_matches('#');
    assert_eq!(entry["ticket"], json!({"id": ticket.id, "display_id": display_id}), "{row:?}");
    assert_eq!(row.happyfox_status.as_deref(), Some("created"));
    assert_eq!(scene.ticket_id(id).await.as_deref(), Some(display_id));
    assert_eq!(scene.mails(id), 1);
    let actions: Vec<String> = scene.audit(id).await.into_iter().map(|line| line.action).collect();
    assert_eq!(actions, ["happyfox_success", "email_sent", "submission_routed"]);
    assert!(!scene.log().contains("ada@"), "no address in the journal");
    scene.stop().await;
}

/// What is refused ends the submission as failed, with the words of whoever refused; the mail was sent all the same.
#[tokio::test]
async fn what_the_help_desk_does_not_take_is_refused_once_with_its_words() {
    let scene = Scene::start("").await;
    let forms = [
        ("private", Form::new("private").ticket_in("Internal").mail_to("a@x.test"), "category"),
        ("unknown", Form::new("unknown").ticket_in("Nowhere").mail_to("a@x.test"), "category"),
        ("none", Form::new("none").ticket_in(" ").mail_to("a@x.test"), "category"),
    ];
    for (name, form, stage) in forms {
        scene.form(form).await;
        let id = scene.submit_to(name).await;
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("failed", 1), "{name}: {row:?}");
        let entry = row.entry("1|happyfox");
        assert_eq!(entry["error"]["stage"], stage, "{name}: {row:?}");
        assert_eq!(entry["error"]["class"], "refused", "{name}: {row:?}");
        assert_eq!(row.happyfox_status.as_deref(), Some("failed"), "{name}");
        assert_eq!(scene.mails(id), 1, "{name}: one refused ticket does not stop the mail beside it");
        let actions: Vec<String> = scene.audit(id).await.into_iter().map(|line| line.action).collect();
        assert_eq!(actions, ["happyfox_failure", "email_sent", "submission_route_failed"], "{name}");
    }
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).act(Act::Status(422)));
    let id = scene.submit().await;
    let row = scene.ended(id).await;
    assert_eq!(row.entry("1|happyfox")["error"]["code"], 422, "{row:?}");
    assert_eq!(row.status, "failed");
    assert!(scene.desk.tickets().is_empty());
    scene.stop().await;
}

/// A refused mail does not stop the ticket beside it.
#[tokio::test]
async fn a_refused_mail_does_not_stop_the_ticket() {
    let scene = Scene::start("").await;
    scene.form(Form::new("m").mail_to("not an address").ticket_in("Complaints")).await;
    let id = scene.submit_to("m").await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "failed", "{row:?}");
    assert_eq!(row.entry("2|happyfox")["state"], "accepted", "{row:?}");
    assert_eq!(scene.desk.tickets().len(), 1);
    scene.stop().await;
}

#[tokio::test]
async fn a_contact_without_a_usable_address_is_the_configured_one() {
    let scene = Scene::start("[happyfox]\nfallback_contact_name = \"Web forms\"\n").await;
    let id = scene.submit_seed(SubmissionSeed::of("t").field("email", "not an address, b@c")).await;
    assert_eq!(scene.ended(id).await.status, "routed");
    let contact = scene.desk.tickets()[0].contact.clone();
    assert_eq!((contact.name.as_str(), contact.email.as_str()), ("Web forms", "forms@greenpeace.org"));
    scene.stop().await;
}

/// Expressions fill custom fields; a choice is named by its text, and what the submission does not have is left out.
#[tokio::test]
async fn custom_fields_come_from_expressions() {
    let fields =
        "[happyfox.forms.t.custom_fields]\n1 = \"submission.id\"\n2 = \"fields.kind\"\n3 = \"fields.day\"\n";
    let scene = Scene::start(fields).await;
    let id = scene.submit_seed(SubmissionSeed::of("t").field("kind", "Complaint")).await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    let ticket = scene.desk.tickets()[0].clone();
    assert_eq!(ticket.ticket_fields[&1], json!(id.to_string()), "{ticket:?}");
    assert!(ticket.ticket_fields.contains_key(&2) && !ticket.ticket_fields.contains_key(&3), "{ticket:?}");
    let id = scene.submit_seed(SubmissionSeed::of("t").field("kind", "Praise")).await;
    let row = scene.ended(id).await;
    assert_eq!(row.entry("1|happyfox")["error"]["stage"], "field", "{row:?}");
    scene.stop().await;
}
