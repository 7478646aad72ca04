//! A help desk that is away, throttles or does not know us: no attempt is spent, and mails go on.

use std::time::Duration;

use devkit::help_desk::{Act, Call, Rule, Stage};
use devkit::slack::SlackMessage;

use crate::scene::Scene;

#[tokio::test]
async fn while_the_help_desk_is_away_mails_go_on_and_no_attempt_is_spent() {
    let scene = Scene::start("").await;
    scene.desk.stop().await;
    let ids = [scene.submit().await, scene.submit().await, scene.submit().await];
    for id in ids {
        scene.until("the mail beside it", async || scene.mails(id) == 1).await;
    }
    scene.until("the breaker", async || scene.log().contains("\"breaker_open\"")).await;
    let said = scene.stage.slack.messages().iter().map(SlackMessage::visible_text).collect::<Vec<_>>();
    assert!(said.iter().filter(|text| text.contains("help desk")).count() <= 1, "{said:?}");
    scene.desk.restart().await.expect("it comes back");
    for id in ids {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
        assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1);
        assert_eq!(scene.mails(id), 1);
    }
    scene.stop().await;
}

#[tokio::test]
async fn credentials_that_are_refused_are_about_us() {
    let scene = Scene::start("").await;
    let (key, code) = (scene.desk.api_key().to_owned(), scene.desk.auth_code().to_owned());
    scene.desk.set_credentials("another", "pair");
    let id = scene.submit().await;
    scene.until("the mail beside it", async || scene.mails(id) == 1).await;
    scene.until("the breaker", async || scene.log().contains("\"breaker_open\"")).await;
    scene.desk.set_credentials(&key, &code);
    let row = scene.ended(id).await;
    assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
    assert!(!scene.log().contains(&key) && !scene.log().contains(&code), "no credential in the journal");
    scene.stop().await;
}

#[tokio::test]
async fn a_throttle_is_waited_out_and_spends_no_attempt() {
    let scene = Scene::start("").await;
    scene.desk.throttle(Duration::from_secs(6));
    let ids = [scene.submit().await, scene.submit().await];
    for id in ids {
        scene.until("the mail beside it", async || scene.mails(id) == 1).await;
    }
    for id in ids {
        let row = scene.ended(id).await;
        assert_eq!((row.status.as_str(), row.attempts()), ("routed", 1), "{row:?}");
        assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1);
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let scene = Scene::start("").await;
    let elsewhere = "http://127.0.0.1:9/api/1.1/json/tickets/".to_owned();
    scene.desk.rule(Rule::at(Stage::Body).call(Call::Create).times(1).act(Act::Redirect(elsewhere)));
    let id = scene.submit().await;
    let row = scene.ended(id).await;
    assert_eq!(row.status, "routed", "{row:?}");
    assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1);
    scene.stop().await;
}
