//! A file on its way: parts in any order, proven, scanned, kept; and everything that comes to nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use devkit::clamd::eicar;
use devkit::google::{Act, Call, Right, Rule, Stage};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use maple_router::ports::Clock;
use maple_router::uploads::card::STORE;
use maple_router::uploads::commands::Commands;
use maple_router::uploads::table::State;
use reqwest::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{CONTENT, PART, STAGING, Scene, Session, sha256, text};

#[tokio::test]
async fn twenty_mebibytes_come_in_parts_out_of_order_and_are_kept_byte_for_byte() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(20 << 20);
    let session = scene.session(&content, json!({})).await;
    scene.send(&session, &[3, 1], &content).await;
    let shown = scene.of(&session, Method::GET, "", None).await;
    assert_eq!(
        (shown.body["state"].as_str(), &shown.body["received"]),
        (Some("parts_uploading"), &json!([1, 3]))
    );
    let early = scene.complete(&session, &content).await;
    assert_eq!(early.code(), (409, "parts_missing".to_owned()));
    assert_eq!(early.body["missing"], json!([2]));
    scene.send(&session, &[2, 2, 1], &content).await;
    let said = scene.complete(&session, &content).await;
    assert_eq!(said.status, 202, "{}", said.text);
    let shown = scene.ended(&session).await;
    assert_eq!(
        (shown["state"].as_str(), shown["verdict"].as_str()),
        (Some("committed"), Some("clean")),
        "{shown}"
    );
    let object: String = scene.one("SELECT object FROM content.blobs").await;
    assert!(object.starts_with("blobs/contact/"), "{object}");
    assert_eq!(scene.google.object_bytes(CONTENT, &object).expect("kept"), content);
    assert_eq!(scene.complete(&session, &content).await.status, 200, "repeated, it is as it was");
    let submission = scene.submission().await;
    let first = scene.attach(&session, submission).await;
    assert_eq!(first.status, 200, "{}", first.text);
    assert_eq!(scene.attach(&session, submission).await, first, "repeated, it is the same attachment");
    let status: String = scene.one("SELECT clamav_status::text FROM attachments").await;
    assert_eq!(status, "clean");
    scene.upkeep().pass().await.expect("a pass");
    assert_eq!(scene.kept(), (0, 0, 1), "nothing is left of the way");
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.staging").await, 0);
}

/// A clock that stands: whoever waits for the next look waits for ever.
#[derive(Debug)]
struct Standing(Instant);

impl Clock for Standing {
    fn monotonic(&self) -> Instant {
        self.0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn a_commit_is_begun_and_its_end_is_told_without_waiting_for_the_next_look() {
    let scene = Scene::new().await;
    let content = text(PART);
    let session = scene.session(&content, json!({})).await;
    scene.send(&session, &[1], &content).await;
    let due = scene.commands.changes.listener();
    assert!(due.notifications().now_or_never().is_none(), "nothing is due yet");
    scene.complete(&session, &content).await;
    assert!(due.notifications().now_or_never().is_some(), "its commit is due, and whoever commits is told");
    let patient = Commands { clock: Arc::new(Standing(Instant::now())), ..scene.commands.clone() };
    let seen = patient.of_id(session.id).await.expect("there");
    let waits = tokio::spawn(async move { patient.show(seen, Duration::from_secs(20)).await });
    tokio::task::yield_now().await;
    let _committing = scene.committing();
    let shown = tokio::time::timeout(Duration::from_secs(30), waits).await.expect("told of its end");
    assert_eq!(shown.expect("no panic").expect("shown").state, State::Committed);
}

#[tokio::test]
async fn the_same_file_again_sends_nothing_and_the_same_request_is_answered_the_same() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(PART + 5);
    let known = json!({"sha256": sha256(&content)});
    let (_, shown) = scene.bring(&content, known.clone()).await;
    assert_eq!(shown["state"], "committed");
    let received = scene.google.bytes_received();
    let wanted = Scene::wanted(&content, &known);
    let again = scene.create("again", wanted.clone()).await;
    assert_eq!((again.status, again.body["state"].as_str()), (201, Some("committed")), "{}", again.text);
    assert_eq!(scene.create("again", wanted).await.text, again.text, "byte for byte");
    assert_eq!(scene.google.bytes_received(), received, "no byte was sent");
    let other = scene.create("again", Scene::wanted(&content, &json!({"file_name": "other.txt"}))).await;
    assert_eq!(other.code(), (422, "idempotency_mismatch".to_owned()));
    let stranger = scene
        .create("theirs", Scene::wanted(&content, &json!({"sha256": sha256(&content), "owner": "another"})))
        .await;
    assert_eq!(stranger.body["state"], "initiated", "another owner is told nothing of it");
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.blobs").await, 1);
}

#[tokio::test]
async fn other_bytes_than_declared_are_nothing_and_leave_nothing() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(PART + 100);
    let mut flipped = content.clone();
    flipped[PART + 7] ^= 1;
    let session = scene.session(&content, json!({"sha256": sha256(&content)})).await;
    scene.send(&session, &[1, 2], &flipped).await;
    assert_eq!(scene.complete(&session, &content).await.status, 202);
    let shown = scene.ended(&session).await;
    assert_eq!(shown["state"], "aborted");
    assert_eq!(shown["problem"]["type"], "urn:maple-router:problem:digest_mismatch", "{shown}");
    let refused = scene.of(&session, Method::POST, "/parts", Some(json!({"numbers": [1]}))).await;
    assert_eq!(refused.code(), (422, "digest_mismatch".to_owned()));
    let again = scene.of(&session, Method::POST, "/commit", None).await;
    assert_eq!(again.text, refused.text, "a problem repeats byte for byte");
    let audited: i64 = scene
        .one("SELECT count(*) FROM router.transitions WHERE lifecycle = 'upload' AND to_state = 'aborted' AND command = 'commit'")
        .await;
    assert_eq!(audited, 1);
    scene.upkeep().pass().await.expect("a pass");
    assert_eq!(scene.kept(), (0, 0, 0));
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.blobs").await, 0);
}

#[tokio::test]
async fn a_part_with_other_bytes_than_its_digest_is_refused_by_the_store() {
    use base64::Engine as _;
    let scene = Scene::new().await;
    let content = text(100);
    let session = scene.session(&content, json!({})).await;
    let md5 = base64::engine::general_purpose::STANDARD.encode(*md5::compute(&content));
    let asked = json!({"numbers": [1], "md5": [md5]});
    let links = scene.of(&session, Method::POST, "/parts", Some(asked)).await;
    let url = links.body["parts"][0]["url"].as_str().expect("a link");
    let mut flipped = content.clone();
    flipped[50] ^= 1;
    for (body, header, expected) in [
        (flipped, &md5, StatusCode::BAD_REQUEST),
        (content.clone(), &"1B2M2Y8AsgTpgAmY7PhCfg==".to_owned(), StatusCode::FORBIDDEN),
        (content.clone(), &md5, StatusCode::OK),
    ] {
        let put =
            scene.http.put(url).header("content-md5", header).body(body).send().await.expect("an answer");
        assert_eq!(put.status(), expected);
    }
    let odd =
        scene.of(&session, Method::POST, "/parts", Some(json!({"numbers": [1], "md5": ["short"]}))).await;
    assert_eq!(odd.code(), (422, "guard".to_owned()));
}

#[tokio::test]
async fn a_type_that_the_bytes_do_not_have_is_nothing() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let program = [b"MZ\x90\0".to_vec(), vec![0; 200]].concat();
    let (_, shown) =
        scene.bring(&program, json!({"file_name": "a.pdf", "content_type": "application/pdf"})).await;
    assert_eq!(shown["problem"]["type"], "urn:maple-router:problem:type", "{shown}");
    assert_eq!(shown["problem"]["shown"], "application/vnd.microsoft.portable-executable");
}

#[tokio::test]
async fn what_is_infected_is_kept_as_evidence_and_its_attachment_is_born_infected() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    // Split over two parts: what is scanned is the whole.
    let mut content = text(PART - 30);
    content.extend_from_slice(&eicar());
    content.extend_from_slice(&text(100));
    let (session, shown) = scene.bring(&content, json!({})).await;
    assert_eq!(
        (shown["state"].as_str(), shown["verdict"].as_str()),
        (Some("committed"), Some("infected")),
        "{shown}"
    );
    let submission = scene.submission().await;
    assert_eq!(scene.attach(&session, submission).await.status, 200);
    let status: String = scene.one("SELECT clamav_status::text FROM attachments").await;
    assert_eq!(status, "infected");
    let known = json!({"sha256": sha256(&content)});
    let again = scene.create("again", Scene::wanted(&content, &known)).await;
    assert_eq!(again.body["state"], "initiated", "nobody is given an infected file instead");
}

#[tokio::test]
async fn while_the_scanner_is_broken_uploads_commit_and_their_attachments_wait() {
    let mut scene = Scene::new().await;
    let _committing = scene.committing();
    scene.clamd.stop().await.expect("stopped");
    let content = text(1000);
    let (session, shown) = scene.bring(&content, json!({})).await;
    assert_eq!(
        (shown["state"].as_str(), shown["verdict"].as_str()),
        (Some("committed"), Some("unscanned")),
        "{shown}"
    );
    let submission = scene.submission().await;
    assert_eq!(scene.attach(&session, submission).await.status, 200);
    let status = async || -> String { scene.one("SELECT clamav_status::text FROM attachments").await };
    assert_eq!(status().await, "pending");
    assert!(scene.scanner.test().await.is_err(), "and it is not believed");
    assert_eq!(scene.upkeep().scan_once().await.expect("a look"), 0, "nobody is asked in vain");
    scene.clamd.up().await.expect("up again");
    scene.scanner.test().await.expect("believed again");
    let scene = &scene;
    scene.eyes.execute("UPDATE content.blobs SET scan_due_at = now()", &[]).await.expect("due");
    assert_eq!(scene.upkeep().scan_once().await.expect("a look"), 1);
    let status: String = scene.one("SELECT clamav_status::text FROM attachments").await;
    assert_eq!(status, "clean");
}

#[tokio::test]
async fn a_store_that_fails_after_the_effect_costs_time_alone() {
    let scene = Scene::new().await;
    let content = text(PART + 10);
    for call in [Call::Complete, Call::Rewrite, Call::Read, Call::Metadata] {
        for stage in [Stage::Before, Stage::After] {
            scene.google.clear_rules();
            let act = Act::Status(503);
            scene.google.rule(Rule::at(stage).call(call).times(2).act(act));
            let committing = scene.committing();
            let owner = format!("{call:?} {stage:?}");
            let (_, shown) = scene.bring(&content, json!({"owner": owner})).await;
            assert_eq!(
                (shown["state"].as_str(), shown["verdict"].as_str()),
                (Some("committed"), Some("clean")),
                "{owner}: {shown}"
            );
            drop(committing);
        }
    }
    scene.google.clear_rules();
    let blobs: i64 = scene.one("SELECT count(*) FROM content.blobs").await;
    assert_eq!(blobs, 8);
    scene.upkeep().pass().await.expect("a pass");
    assert_eq!(scene.kept(), (0, 0, 8), "no object is left over");
}

#[tokio::test]
async fn trouble_with_the_store_is_told_of_and_ends_when_a_scan_works_again() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(100);
    scene.bring(&content, json!({})).await;
    let upkeep = scene.upkeep();
    let due = "UPDATE content.blobs SET scan_due_at = now()";
    // A right that is missing is told of at once.
    let account = scene.google.service_account_email().to_owned();
    scene.google.grant(&account, CONTENT, &[Right::Create]);
    scene.eyes.batch_execute(due).await.expect("due");
    assert_eq!(upkeep.scan_once().await.expect("a look"), 1);
    assert!(scene.told.keys().contains(&STORE), "{:?}", scene.told.keys());
    scene.google.grant(&account, CONTENT, &[Right::Create, Right::Get]);
    scene.eyes.batch_execute(due).await.expect("due");
    assert_eq!(upkeep.scan_once().await.expect("a look"), 1);
    assert_eq!(scene.told.keys(), []);
}

#[tokio::test]
async fn the_store_has_lost_the_parts_and_the_session_says_so() {
    let scene = Scene::new().await;
    let content = text(10);
    let session = scene.session(&content, json!({})).await;
    scene.send(&session, &[1], &content).await;
    let there = scene.google.uploads(STAGING);
    let path =
        format!("{}/{STAGING}/{}?uploadId={}", scene.google.storage_endpoint(), there[0].object, there[0].id);
    let token = scene.google.token_of(scene.google.service_account_email());
    let gone = scene.http.delete(path).bearer_auth(token).send().await.expect("an answer");
    assert_eq!(gone.status(), StatusCode::NO_CONTENT);
    let said = scene.complete(&session, &content).await;
    assert_eq!(said.code(), (410, "lost".to_owned()));
    assert_eq!(scene.complete(&session, &content).await.text, said.text);
}

#[tokio::test]
async fn a_session_is_ended_by_its_client_and_a_committed_one_is_not() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(10);
    let session = scene.session(&content, json!({})).await;
    scene.send(&session, &[1], &content).await;
    for _ in 0..2 {
        assert_eq!(scene.of(&session, Method::DELETE, "", None).await.status, 204);
    }
    let refused = scene.complete(&session, &content).await;
    assert_eq!(refused.code(), (410, "aborted".to_owned()));
    scene.upkeep().pass().await.expect("a pass");
    assert_eq!(scene.kept(), (0, 0, 0));
    let (done, _) = scene.bring(&content, json!({})).await;
    let refused = scene.of(&done, Method::DELETE, "", None).await;
    assert_eq!(refused.code(), (409, "not_possible".to_owned()));
    assert_eq!(refused.body["legal"], json!([]));
}

#[tokio::test]
async fn nobody_sees_somebody_elses_session() {
    let scene = Scene::new().await;
    let (mine, theirs) =
        (scene.session(b"0123456789", json!({})).await, scene.session(b"0123456789", json!({})).await);
    let foreign = Session { token: theirs.token.clone(), ..mine.clone() };
    let unknown = Session { id: Uuid::new_v4(), ..theirs.clone() };
    let answers = [
        scene.of(&foreign, Method::GET, "", None).await,
        scene.of(&unknown, Method::GET, "", None).await,
        scene.of(&foreign, Method::DELETE, "", None).await,
        scene.of(&foreign, Method::POST, "/parts", Some(json!({"numbers": [1]}))).await,
    ];
    for answer in &answers {
        assert_eq!(answer.text, answers[0].text, "which of them it is is not told");
        assert_eq!(answer.code(), (404, "not_found".to_owned()));
    }
    for credential in ["", "x", "mrup_x.y", &format!("{}x", mine.token)] {
        let refused = scene.ask(Method::GET, &format!("/v1/uploads/{}", mine.id), credential, None).await;
        assert_eq!(refused.code(), (401, "unauthenticated".to_owned()), "{credential}");
    }
    for path in ["/v1/uploads", &format!("/v1/uploads/{}/attach", mine.id)] {
        let body = Some(json!({"submission_id": Uuid::new_v4()}));
        let refused = scene.ask(Method::POST, path, &mine.token, body).await;
        assert_eq!(refused.code(), (401, "unauthenticated".to_owned()), "{path}: the backend alone");
    }
}
