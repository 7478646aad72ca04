//! A ticket that may exist is looked for by its tag before anything is sent again.

use std::time::Duration;

use devkit::help_desk::{Act, Call, Rule, Stage};
use devkit::slack::SlackMessage;
use devkit::submission::Row;
use serde_json::json;

use crate::scene::Scene;

/// `happyfox.doubt_window` of the scene.
const WINDOW: Duration = Duration::from_secs(10);

/// The answer is lost after the ticket was made.
fn lost_answer() -> Rule {
    Rule::at(Stage::Answer).call(Call::Create).times(1).act(Act::Disconnect)
}

#[tokio::test]
async fn a_ticket_whose_answer_was_lost_is_found_and_not_made_again() {
    let scene = Scene::start("").await;
    for act in
        [Act::Disconnect, Act::Status(500), Act::Html(200), Act::WithoutId, Act::WrongId, Act::Truncated]
    {
        scene.desk.rule(Rule::at(Stage::Answer).call(Call::Create).times(1).act(act.clone()));
        let id = scene.submit().await;
        let row = scene.ended(id).await;
        assert_eq!(row.status, "routed", "{act:?}: {row:?}");
        let entry = row.entry("1|happyfox");
        assert_eq!(entry["doubted"], true, "{act:?}: {row:?}");
        let made = scene.desk.tagged(&Scene::tag(id));
        let [ticket] = made.as_slice() else { panic!("{act:?}: {made:?}") };
        assert_eq!(entry["ticket"]["id"], json!(ticket.id), "{act:?}");
        assert_eq!(scene.mails(id), 1, "{act:?}");
        scene.desk.clear_rules();
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_ticket_that_was_not_made_is_made_after_three_answers_that_say_so() {
    let scene = Scene::start("").await;
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Status(503)));
    let id = scene.submit().await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1);
    assert_eq!(row.attempts(), 2, "what perhaps happened costs its attempt: {row:?}");
    scene.stop().await;
}

#[tokio::test]
async fn a_ticket_that_is_not_found_is_held_where_the_policy_says_so() {
    let scene = Scene::start("[routing]\nin_doubt = \"hold\"\n").await;
    scene.desk.hold_index();
    scene.desk.rule(lost_answer());
    let id = scene.submit().await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "failed", "{row:?}");
    assert_eq!(row.entry("1|happyfox")["error"]["class"], "in_doubt", "{row:?}");
    assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "none twice");
    scene.stop().await;
}

/// A person who opens a held ticket again has decided to have it; that it may be there is looked for once more all the same.
#[tokio::test]
async fn a_held_ticket_that_is_opened_again_is_looked_for_before_it_is_made() {
    let scene = Scene::start("[routing]\nin_doubt = \"hold\"\n").await;
    scene.desk.hold_index();
    scene.desk.rule(lost_answer());
    let there = scene.submit().await;
    assert_eq!(scene.ended(there).await.status, "failed");
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Status(503)));
    let away = scene.submit().await;
    assert_eq!(scene.ended(away).await.status, "failed");
    scene.desk.release_index();
    for id in [there, away] {
        let answer = scene.ask(&["replay", &id.to_string(), "--reason", "looked at"]).await;
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let row = scene.await_row(id, "ticket", |row| row.status == "routed").await;
        assert_eq!(row.entry("1|happyfox")["doubted"], true, "{row:?}");
        assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "{row:?}");
    }
    assert_eq!(scene.desk.tickets().len(), 2);
    scene.stop().await;
}

/// The index was slower than the window: a person closes what is too much, and is told so until Slack has it.
#[tokio::test]
async fn several_tickets_of_one_tag_are_reported_and_named() {
    let mut scene = Scene::start("").await;
    scene.stage.slack.down().await;
    scene.desk.hold_index();
    scene.desk.rule(lost_answer().times(2));
    let id = scene.submit().await;
    scene.until("two tickets", async || scene.desk.tagged(&Scene::tag(id)).len() == 2).await;
    scene.desk.release_index();
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    let made = scene.desk.tagged(&Scene::tag(id));
    let entry = row.entry("1|happyfox");
    assert_eq!(
        (entry["ticket"]["id"].clone(), entry["also"][0]["id"].clone()),
        (json!(made[0].id), json!(made[1].id))
    );
    let answer = scene.ask(&["explain", &id.to_string()]).await;
    let words = answer.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let other = made[1].display_id.trim_start_matches('#');
    assert!(words.contains(&format!("also made as {other}")), "{}", answer.out);
    assert!(words.contains(&format!("1 further ticket with the same tag: {other}")), "{}", answer.out);

    // Nobody could be told by the process that found them.
    scene.kill().await;
    scene.stage.slack.up().await.expect("Slack");
    scene.one_more().await;
    let said = || scene.stage.slack.messages().iter().map(SlackMessage::visible_text).collect::<Vec<_>>();
    let told =
        |text: &String| text.contains("more than one ticket") && text.contains("section tickets_twice");
    scene.until("the notice", async || said().iter().any(told)).await;
    let named =
        said().into_iter().any(|text| told(&text) && text.contains(&format!("maple-router explain {id}")));
    assert!(named, "{:?}", said());
    assert!(said().iter().all(|text| !text.contains("ada@")), "{:?}", said());
    scene.stop().await;
}

/// Who cannot be asked has not said "not found".
#[tokio::test]
async fn a_search_that_does_not_answer_is_an_outage_and_nothing_is_made_meanwhile() {
    let scene = Scene::start("").await;
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Search).act(Act::Status(503)));
    scene.desk.rule(lost_answer());
    let id = scene.submit().await;
    scene.until("the mail beside it", async || scene.mails(id) == 1).await;
    // Longer than the window after which three answers would let it be made again.
    tokio::time::sleep(WINDOW + WINDOW / 2).await;
    assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "nothing is made while nobody answers");
    let row = scene.row(id).await;
    assert!(!row.has_ended(), "{row:?}");
    scene.desk.clear_rules();
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "{row:?}");
    scene.stop().await;
}

/// The search takes longer here than a stop may: the submission goes back, and its doubt stays.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_search() {
    let mut scene = Scene::start("[happyfox]\ndoubt_window = \"25s\"\n").await;
    scene.desk.hold_index();
    scene.desk.rule(lost_answer());
    let id = scene.submit().await;
    let searching = |row: &Row| {
        row.status == "processing" && row.attempts() == 2 && row.entry("1|happyfox")["doubt"] == true
    };
    scene.await_row(id, "search", searching).await;
    scene.end().await;
    let row = scene.row(id).await;
    assert_eq!(row.status, "received", "{row:?}");
    assert_eq!(row.entry("1|happyfox")["doubt"], true, "{row:?}");
    scene.desk.release_index();
    scene.one_more().await;
    assert_eq!(scene.ended(id).await.status, "routed");
    assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1);
    scene.stop().await;
}

#[tokio::test]
async fn somebody_elses_tickets_are_not_ours() {
    let scene = Scene::start("").await;
    scene.desk.rule(Rule::at(Stage::Answer).call(Call::Search).act(Act::Strangers(3)));
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Status(500)));
    let id = scene.submit().await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    let made = scene.desk.tagged(&Scene::tag(id));
    assert_eq!(row.entry("1|happyfox")["ticket"]["id"], json!(made[0].id), "{row:?}");
    assert_eq!(made.len(), 1);
    scene.stop().await;
}
