//! What operators are shown of tickets: before they are made, once they are made, in doubt, and while they wait.

use std::time::Duration;

use devkit::forms::SubmissionSeed;
use devkit::help_desk::{Act, Call, Rule, Stage};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::scene::Scene;

async fn explained(scene: &Scene, id: Uuid) -> Value {
    let answer = scene.ask(&["explain", &id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.json().expect("JSON")
}

/// The page as people read it, on one line.
async fn page(scene: &Scene, id: Uuid) -> String {
    let answer = scene.ask(&["explain", &id.to_string()]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.lines().count() <= 24, "{}", answer.out);
    answer.out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Waits until the page says all of this: a worker may look at the row meanwhile, and then it says that.
async fn says(scene: &Scene, id: Uuid, all: &[&str]) {
    let said = async || {
        let words = page(scene, id).await;
        all.iter().all(|part| words.contains(part))
    };
    scene.until("page that says it", said).await;
}

#[tokio::test]
async fn a_ticket_is_explained_by_its_id_its_page_and_its_tag() {
    let scene = Scene::start("").await;
    let id = scene.submit().await;
    scene.ended(id).await;
    let tickets = scene.desk.tickets();
    let [ticket] = tickets.as_slice() else { panic!("{tickets:?}") };
    let display_id = ticket.display_id.trim_start_matches('#');
    let url = format!("{}/staff/ticket/{}", scene.desk.base_url().trim_end_matches('/'), ticket.id);
    let explanation = explained(&scene, id).await;
    let of = |order: usize| &explanation["deliveries"][order];
    let expected = json!({"tag": Scene::tag(id), "id": ticket.id, "display_id": display_id, "url": url});
    assert_eq!(of(0)["ticket"], expected, "{explanation:#}");
    assert_eq!((of(0)["relay"].clone(), of(1)["recipient"].clone()), (Value::Null, json!("a@x.test")));
    assert!(of(1).get("ticket").is_none() && explanation.get("help_desk").is_none(), "{explanation:#}");
    let words = page(&scene, id).await;
    let tag = Scene::tag(id);
    for said in [
        format!("1 help desk accepted, ticket {display_id} {url} tag {tag}"),
        format!("the relay accepted every delivery (1 of 1), and the help desk made its ticket {display_id}"),
    ] {
        assert!(words.contains(&said), "{said}:\n{words}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_ticket_that_waits_says_for_whom_and_one_in_doubt_by_which_tag() {
    let scene = Scene::start("").await;
    scene.desk.throttle(Duration::from_secs(600));
    let id = scene.submit().await;
    scene.until("the mail beside it", async || scene.mails(id) == 1).await;
    scene.until("the throttle", async || explained(&scene, id).await["help_desk"] == "throttles").await;
    let tag = format!("tag {}", Scene::tag(id));
    let waits = "the ticket waits for the help desk (it throttles us), and mails go on";
    says(&scene, id, &[waits, "1 help desk open", &tag]).await;
    scene.stop().await;

    // Away, and one ticket in doubt.
    let scene = Scene::start("").await;
    scene.desk.hold_index();
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Search).act(Act::Status(503)));
    scene.desk.rule(Rule::at(Stage::Answer).call(Call::Create).times(1).act(Act::Disconnect));
    let id = scene.submit().await;
    scene.await_row(id, "doubt", |row| row.entry("1|happyfox")["doubt"] == true).await;
    scene.desk.stop().await;
    scene.until("the breaker", async || explained(&scene, id).await["help_desk"] == "out").await;
    let said = [
        "1 help desk open, in doubt",
        "1 ticket in doubt: perhaps made, and searched for by its tag",
        "the ticket waits for the help desk (breaker open), and mails go on",
        "the ticket once the help desk works again;",
        "first the ticket is searched for by its tag",
        &format!("tag {}", Scene::tag(id)),
    ];
    says(&scene, id, &said).await;
    scene.stop().await;
}

/// What is rendered is what is made.
#[tokio::test]
async fn a_ticket_is_rendered_as_it_is_made() {
    let scene = Scene::start("[happyfox.forms.t.custom_fields]\n1 = \"fields.region\"\n").await;
    let paused = scene.ask(&["pause", "--reason", "to look at it first"]).await;
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let seed = SubmissionSeed::of("t").field("email", "ada@example.org").field("name", "Ada");
    let id = scene.submit_seed(seed.field("region", "North")).await;
    let answer = scene.ask(&["render", &id.to_string(), "--json"]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let shown: Value = answer.json().expect("JSON");
    assert_eq!(shown[0]["action_order"], 1, "{shown:#}");
    assert_eq!(
        (shown[0]["open"].clone(), shown[1]["recipients"].clone()),
        (json!(true), json!(["a@x.test"]))
    );
    let only = scene.ask(&["render", &id.to_string(), "--action", "1"]).await;
    for line in [
        "==== action 1 to the help desk",
        "Category: General",
        "Contact: Ada <ada@example.org>",
        "t-cf-1: North",
    ] {
        assert!(only.out.lines().any(|shown| shown == line), "{line}: {only:?}");
    }
    assert!(!only.out.contains("a@x.test"), "{only:?}");
    assert!(scene.desk.tickets().is_empty(), "nothing is made by looking at it");

    let resumed = scene.ask(&["resume", "--all", "--reason", "looked at"]).await;
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    scene.ended(id).await;
    let tickets = scene.desk.tickets();
    let [made] = tickets.as_slice() else { panic!("{tickets:?}") };
    let rendered = &shown[0]["ticket"];
    assert_eq!(rendered["category"], json!(made.category));
    assert_eq!(rendered["subject"], json!(made.subject));
    assert_eq!(rendered["tags"], json!(made.tags));
    assert_eq!(rendered["contact_name"], json!(made.contact.name));
    assert_eq!(rendered["contact_email"], json!(made.contact.email));
    assert_eq!(rendered["custom_fields"], json!({"1": "North"}));
    let after = scene.ask(&["render", &id.to_string()]).await;
    assert!(
        after.err.contains("action 1: nothing of it is open; this is its ticket all the same"),
        "{after:?}"
    );
    scene.stop().await;
}
