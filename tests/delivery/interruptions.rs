//! Log rotated, Postfix restarted or killed, the daemon down for an hour's worth of log: no status is missed, and
//! none is logged twice.

use std::io::Write as _;

use devkit::forms::Form;
use devkit::postfix::Rotation;
use devkit::smtp::{Rule, Stage as At};
use uuid::Uuid;

use crate::harness::{Scene, relay_status};

const ALL: [&str; 2] = ["1|a@x.test", "1|b@x.test"];

async fn scene() -> Scene {
    Scene::start(&[Form::new("f").mail_to("a@x.test, b@x.test")]).await
}

/// Makes mails that are deferred for `a` and delivered for `b`.
async fn deferred(scene: &Scene, count: usize) -> Vec<Uuid> {
    scene.stage.relay.rule(Rule::at(At::Rcpt).to("a@x.test").reply("450 4.2.0 not yet"));
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(scene.submit("f").await);
    }
    for id in &ids {
        scene.known(*id, &["1|a@x.test"], "deferred").await;
        scene.known(*id, &["1|b@x.test"], "delivered").await;
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_while_the_log_is_rotated_and_postfix_restarted() {
    let mut scene = scene().await;
    let mut ids = Vec::new();
    for rotation in [Rotation::Renamed, Rotation::Postfix, Rotation::Renamed] {
        let waiting = deferred(&scene, 3).await;
        // Deliveries from now on stand in the old file, in the new one, or partly in both.
        scene.stage.relay.clear_rules();
        scene.postfix.rotate(rotation).await.expect("rotated");
        ids.push(scene.submit("f").await);
        for id in &waiting {
            scene.known(*id, &ALL, "delivered").await;
        }
        ids.extend(waiting);
    }
    let waiting = deferred(&scene, 3).await;
    scene.postfix.restart().await.expect("restarted");
    scene.postfix.kill().await.expect("killed");
    scene.stage.relay.clear_rules();
    scene.postfix.up().await.expect("up again");
    ids.extend(waiting);
    for id in &ids {
        scene.known(*id, &ALL, "delivered").await;
    }
    scene.down().await;
}

/// Writes an hour's worth of others' lines, to the end of the file as Postfix's logger does.
fn others_say_a_lot(scene: &Scene) {
    // After a rotation it is there again with Postfix's next word.
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).create(true).open(scene.postfix.log_file()).expect("the log");
    let mut file = std::io::BufWriter::new(file);
    for n in 0..20_000 {
        let line = format!(
            "Nov 22 01:02:03 host postfix/smtp[77]: 4A{n:08X}: to=<u{n}@elsewhere.test>, relay=mx.elsewhere.test[192.0.2.1]:25, \
             delay=0.4, delays=0.1/0/0.1/0.2, dsn=2.0.0, status=sent (250 2.0.0 Ok)"
        );
        writeln!(file, "{line}").expect("written");
    }
    file.flush().expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_missed_while_the_daemon_is_down() {
    let mut scene = scene().await;
    let ids = deferred(&scene, 4).await;
    let (refused, delivered) = ids.split_at(2);
    // Accepted, and the daemon is gone before anybody knows more.
    scene.down().await;
    others_say_a_lot(&scene);
    let refuse = |id: &Uuid| Rule::at(At::Dot).submission(&id.to_string()).reply("554 5.7.1 rejected");
    // Mails cannot go through between the old rules and the new ones.
    scene.stage.relay.stop().await;
    scene.stage.relay.clear_rules();
    refused.iter().for_each(|id| scene.stage.relay.rule(refuse(id)));
    scene.stage.relay.restart().await.expect("it is back");
    scene.postfix.emptied(crate::harness::PATIENCE).await.expect("everything is done with");
    // All these lines stand in a file that has another name by now.
    scene.postfix.rotate(Rotation::Renamed).await.expect("rotated");
    others_say_a_lot(&scene);
    scene.postfix.restart().await.expect("restarted");
    scene.up().await;
    for id in delivered {
        scene.known(*id, &ALL, "delivered").await;
    }
    for id in refused {
        let row = scene.known(*id, &["1|a@x.test"], "bounced").await;
        assert_eq!(relay_status(&row, "1|b@x.test"), "delivered", "{row:?}");
        assert_eq!(scene.failures(*id).await.len(), 1, "notified once");
    }
    // A second read from the saved position logs nothing again.
    scene.down().await;
    scene.up().await;
    let last = scene.submit("f").await;
    scene.known(last, &ALL, "delivered").await;
    for id in refused {
        assert_eq!(scene.failures(*id).await.len(), 1, "notified once");
    }
    scene.down().await;
}
