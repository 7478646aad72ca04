//! The daemon's look: what was decided is told once, whoever decided, and people are notified of a form that drifted and of a policy
//! that could not be believed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_router::config::Config;
use maple_router::forms::watch::FormWatch;
use maple_router::ops::clock::SystemClock;
use maple_router::ops::incident::Incidents;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::harness::{Scene, form, zoe};

#[tokio::test]
async fn people_are_notified_of_a_form_that_drifted_and_of_a_policy_that_is_away_until_neither_is() {
    let scene = Scene::new().await;
    scene.followed(&form("f", "one")).await;
    let (incidents, _open) = Incidents::new();
    let mut config = Config::default();
    config.forms.policy_dir = Some(scene.policy_dir().to_owned());
    let (_config, config) = watch::channel(Arc::new(config));
    let looking = FormWatch {
        store: scene.desk.store.clone(),
        config,
        clock: Arc::new(SystemClock),
        incidents: incidents.clone(),
    };
    let open = || incidents.keys().iter().map(|key| key.label()).collect::<Vec<_>>();
    let mut seen = None;
    looking.look(&mut seen).await.expect("looked");
    assert_eq!(open(), Vec::<&str>::new());
    let policy = std::fs::read_to_string(scene.policy_dir().join("publish.rego")).expect("the policy");
    scene.policy(Some("package maple.publish\nallow if {"));
    let guard = |how: &str| format!("ALTER TABLE actions {how} TRIGGER content_managed");
    let write = |to: &str| format!("UPDATE actions SET destination = '{to}' WHERE form_id = 'f'");
    scene.sql(&guard("DISABLE")).await;
    scene.sql(&write("red@example.org")).await;
    looking.look(&mut seen).await.expect("looked");
    let mut both = open();
    both.sort_unstable();
    assert_eq!(both, ["forms_drift", "policy_away"]);
    scene.policy(Some(&policy));
    scene.sql(&write("team@example.org")).await;
    scene.sql(&guard("ENABLE")).await;
    looking.look(&mut seen).await.expect("looked");
    assert_eq!(open(), Vec::<&str>::new());
}

/// Whoever mends it, and reloads, need not wait for the next minute; a list of signers that is not understood is told like a policy.
#[tokio::test]
async fn a_reload_is_looked_at_at_once() {
    let scene = Scene::new().await;
    let (incidents, _open) = Incidents::new();
    let mut config = Config::default();
    config.forms.policy_dir = Some(scene.policy_dir().to_owned());
    let (reload, seen) = watch::channel(Arc::new(config.clone()));
    let looking = FormWatch {
        store: scene.desk.store.clone(),
        config: seen,
        clock: Arc::new(SystemClock),
        incidents: incidents.clone(),
    };
    let stop = CancellationToken::new();
    let until = async |is_open: bool| {
        let so = async || incidents.keys().iter().any(|key| key.label() == "policy_away") == is_open;
        devkit::waiting::until(Duration::from_secs(30), Duration::from_millis(20), so).await
    };
    let told = async {
        let signers = scene.policy_dir().join("signers");
        std::fs::write(&signers, "anna\n").expect("written");
        (config.forms.require_signatures, config.forms.allowed_signers) = (1, Some(signers));
        reload.send_replace(Arc::new(config.clone()));
        assert!(until(true).await, "a line without a key");
        config.forms.require_signatures = 0;
        reload.send_replace(Arc::new(config));
        assert!(until(false).await, "nobody has to sign any more");
        stop.cancel();
    };
    tokio::join!(looking.run(&stop), told);
}

#[tokio::test]
async fn a_decision_is_told_once_also_where_an_earlier_one_is_committed_later() {
    let scene = Scene::new().await;
    let (one, two) = (scene.draft(&form("f", "one")).await, scene.draft(&form("g", "one")).await);
    let from = scene.desk.store.over().await.expect("answered");
    // Whoever began first takes longest: its decision has the lower id, and is there last.
    let slow = scene.db.client_as("forms_loader").await.expect("forms_loader");
    let decide = format!(
        "BEGIN; INSERT INTO content.decisions (version_id, command, digest, policy, allowed, reasons, actor)
         SELECT id, 'publish', digest, NULL, false, '[\"r\"]', 'slow' FROM content.versions WHERE id = '{}'",
        one.id
    );
    slow.batch_execute(&decide).await.expect("decided");
    scene.publisher.publish(two.id, &two.digest, &zoe()).await.expect("judged");
    let store = &scene.desk.store;
    let first = store.over().await.expect("answered");
    let mut told = store.decided(from, first).await.expect("answered");
    slow.batch_execute("COMMIT").await.expect("committed");
    // Transactions of other databases of this server count as well: other tests have theirs.
    let mut seen = first;
    let began = Instant::now();
    while told.len() < 2 && began.elapsed() < Duration::from_secs(50) {
        let over = store.over().await.expect("answered");
        told.extend(store.decided(seen, over).await.expect("answered"));
        seen = over;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut actors: Vec<&str> = told.iter().map(|decided| decided.actor.as_str()).collect();
    actors.sort_unstable();
    assert_eq!(actors, ["operator:zoe", "slow"], "{told:?}");
    let last = store.over().await.expect("answered");
    assert_eq!(store.decided(seen, last).await.expect("answered"), [], "once");
}
