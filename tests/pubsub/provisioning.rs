//! Provisioning: objects made, compared and mended on the server.

use std::time::Duration;

use google_cloud_pubsub::model::{DeadLetterPolicy, RetryPolicy};
use maple_router::gateway::pubsub::admin::{StepState, provision};
use maple_router::gateway::pubsub::inspect::{Verified, verify};
use maple_router::ports::CheckLevel;

use crate::harness::{provisioned, server, soon};

#[tokio::test]
async fn what_exists_is_verified_at_start() {
    let fixture = provisioned().await;
    let Verified::Readable(facts) = soon(verify(&fixture.settings)).await.unwrap() else {
        panic!("a server without roles lets everyone read");
    };
    assert_eq!(facts.dead_letter, Some((fixture.settings.dead_letter_topic.clone().unwrap(), 5)));
    assert_eq!(facts.ack_deadline, Duration::from_secs(60));
}

#[tokio::test]
async fn provision_creates_once_and_a_dry_run_creates_nothing() {
    let fixture = server().await;
    let states = async |dry_run| -> Vec<StepState> {
        let steps = soon(provision(&fixture.settings, dry_run)).await.unwrap();
        steps.iter().map(|step| step.state).collect()
    };
    assert_eq!(states(true).await, [StepState::WouldCreate; 4]);
    assert_eq!(states(true).await, [StepState::WouldCreate; 4], "a dry run made something");
    assert_eq!(states(false).await, [StepState::Created; 4]);
    assert_eq!(states(false).await, [StepState::Exists; 4]);
    assert_eq!(states(true).await, [StepState::Exists; 4]);
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Ok)]);
}

#[tokio::test]
async fn provision_mends_what_drifted_and_says_what_it_cannot() {
    let mut fixture = provisioned().await;
    let dead_letter_topic = fixture.settings.dead_letter_topic.clone().unwrap();
    let six = DeadLetterPolicy::new().set_dead_letter_topic(dead_letter_topic).set_max_delivery_attempts(6);
    fixture.alter("dead_letter_policy", |found| found.set_dead_letter_policy(six)).await;
    let slow = RetryPolicy::new().set_maximum_backoff(google_cloud_wkt::Duration::clamp(300, 0));
    fixture.alter("retry_policy", |found| found.set_retry_policy(slow)).await;

    let dry = soon(provision(&fixture.settings, true)).await.unwrap();
    assert_eq!(dry.last().unwrap().state, StepState::WouldChange);
    let both = [("subscription", CheckLevel::Fail), ("dead_letter", CheckLevel::Fail)];
    assert_eq!(fixture.levels().await, both, "a dry run changed something");

    let steps = soon(provision(&fixture.settings, false)).await.unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last.state, StepState::Changed);
    assert!(last.detail.contains("after 6 delivery attempts"), "{last:?}");
    assert!(last.detail.contains("retry policy"), "{last:?}");
    let neither = [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Ok)];
    assert_eq!(fixture.levels().await, neither);

    fixture.settings.topic = fixture.settings.topic.map(|name| name + "-new");
    let steps = soon(provision(&fixture.settings, false)).await.unwrap();
    assert_eq!(steps.last().unwrap().state, StepState::Differs, "{steps:#?}");
}

#[tokio::test]
async fn without_a_dead_letter_policy_only_that_line_fails() {
    let fixture = provisioned().await;
    fixture.alter("dead_letter_policy", |found| found).await;
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Fail)]);
}

#[tokio::test]
async fn with_six_attempts_only_the_dead_letter_line_fails() {
    let fixture = provisioned().await;
    let topic = fixture.settings.dead_letter_topic.clone().unwrap();
    let six = DeadLetterPolicy::new().set_dead_letter_topic(topic).set_max_delivery_attempts(6);
    fixture.alter("dead_letter_policy", |found| found.set_dead_letter_policy(six)).await;
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Fail)]);
}

#[tokio::test]
async fn an_unknown_subscription_fails_its_own_line() {
    let mut fixture = provisioned().await;
    fixture.settings.subscription.push_str("-unknown");
    assert_eq!(
        fixture.levels().await,
        [("subscription", CheckLevel::Fail), ("dead_letter", CheckLevel::Warn)]
    );
    let mut fixture = provisioned().await;
    fixture.settings.dead_letter_subscription = Some("projects/ppp/subscriptions/unknown".to_owned());
    assert_eq!(fixture.levels().await, [("subscription", CheckLevel::Ok), ("dead_letter", CheckLevel::Fail)]);
}
