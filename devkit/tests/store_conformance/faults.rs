//! Each scripted fault as a client without any cleverness sees it, and what became of the upload meanwhile.

use std::time::{Duration, Instant};

use devkit::google::{Act, Call, Mishap, Rule, Spoilt, Stage};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::world::{CONTENT, PATIENCE, STAGING, World, bytes, said, whole};

#[expect(clippy::disallowed_methods, reason = "how long a client waited, in real time")]
fn now() -> Instant {
    Instant::now()
}

/// A request of each kind that has an effect, and whether it had it.
struct Case {
    call: Call,
    request: RequestBuilder,
    done: fn(&World) -> bool,
}

async fn cases(world: &World) -> Vec<Case> {
    for upload in world.google.uploads(STAGING) {
        let path = format!("/staging/{}?uploadId={}", upload.object, upload.id);
        assert_eq!(said(world.ask(Method::DELETE, &path)).await.status, 204);
    }
    for (bucket, object) in [(STAGING, "completed"), (STAGING, "written"), (CONTENT, "copy")] {
        world.google.delete_object(bucket, object);
    }
    world.google.put_object(STAGING, "doomed", "text/plain", "x");
    world.google.put_object(STAGING, "source", "text/plain", "x");
    let (part, complete) = (world.initiate("part").await, world.initiate("completed").await);
    let abort = world.initiate("aborted").await;
    let etag = world.store_part("completed", &complete, 1, b"x".to_vec()).await;
    let parts_of = |world: &World, object: &str| {
        world
            .google
            .uploads(STAGING)
            .iter()
            .find(|upload| upload.object == object)
            .map(|upload| upload.parts.len())
    };
    assert_eq!(parts_of(world, "part"), Some(0));
    let rewrite = "/storage/v1/b/staging/o/source/rewriteTo/b/content/o/copy";
    let uploads = |world: &World, object: &str| {
        world.google.uploads(STAGING).iter().any(|upload| upload.object == object)
    };
    assert!(uploads(world, "aborted"));
    vec![
        Case {
            call: Call::Initiate,
            request: world.ask(Method::POST, "/staging/begun?uploads"),
            done: |world| world.google.uploads(STAGING).iter().any(|upload| upload.object == "begun"),
        },
        Case {
            call: Call::Part,
            request: world.part("part", &part, 1, b"x".to_vec()),
            done: |world| {
                world
                    .google
                    .uploads(STAGING)
                    .iter()
                    .any(|upload| upload.object == "part" && !upload.parts.is_empty())
            },
        },
        Case {
            call: Call::Complete,
            request: world.complete("completed", &complete, &[(1, &etag)]),
            done: |world| world.google.object(STAGING, "completed").is_some(),
        },
        Case {
            call: Call::Abort,
            request: world.ask(Method::DELETE, &format!("/staging/aborted?uploadId={abort}")),
            done: |world| !world.google.uploads(STAGING).iter().any(|upload| upload.object == "aborted"),
        },
        Case {
            call: Call::Rewrite,
            request: world.ask(Method::POST, rewrite).json(&json!({})),
            done: |world| world.google.object(CONTENT, "copy").is_some(),
        },
        Case {
            call: Call::Delete,
            request: world.ask(Method::DELETE, "/storage/v1/b/staging/o/doomed"),
            done: |world| world.google.object(STAGING, "doomed").is_none(),
        },
        Case {
            call: Call::Write,
            request: world.ask(Method::PUT, "/staging/written").body("x"),
            done: |world| world.google.object(STAGING, "written").is_some(),
        },
    ]
}

#[tokio::test]
async fn each_call_fails_before_its_effect_and_after_it() {
    let world = World::new().await;
    for (stage, done) in [(Stage::Head, false), (Stage::Before, false), (Stage::After, true)] {
        for act in [Act::Status(503), Act::Status(500), Act::Disconnect, Act::Silence, Act::ErrorInside] {
            for case in cases(&world).await {
                let what = format!("{:?} {stage:?} {act:?}", case.call);
                let calls = world.google.calls(case.call);
                world.google.rule(Rule::at(stage).call(case.call).act(act));
                let again = case.request.try_clone().expect("a body that is kept");
                let answered = case.request.timeout(Duration::from_millis(300)).send().await;
                match act {
                    Act::Status(status) => {
                        assert_eq!(answered.expect(&what).status().as_u16(), status, "{what}");
                    }
                    Act::ErrorInside => {
                        let inside = whole(answered.expect(&what)).await;
                        assert_eq!(inside.code(), (200, "InternalError".to_owned()), "{what}");
                    }
                    Act::Silence => assert!(answered.expect_err(&what).is_timeout(), "{what}"),
                    Act::Disconnect | Act::Normal | Act::Flipped | Act::Truncated | Act::Stalled => {
                        let failed = answered.expect_err(&what);
                        assert!(!failed.is_timeout() && !failed.is_connect(), "{what}: {failed:?}");
                    }
                }
                assert_eq!((case.done)(&world), done, "{what}");
                // A client may try a request again by itself whose connection ended before an answer.
                assert!(world.google.calls(case.call) > calls, "{what}");
                world.google.clear_rules();
                let repeated = said(again).await.status;
                let lost = [Call::Complete, Call::Abort, Call::Delete].contains(&case.call) && done;
                assert_eq!(repeated == 404, lost, "{what}: {repeated}");
                assert!((case.done)(&world), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn calls_that_only_look_fail_as_well() {
    let world = World::new().await;
    world.google.put_object(STAGING, "o", "text/plain", "x");
    let id = world.initiate("o").await;
    for (call, path) in [
        (Call::ListParts, format!("/staging/o?uploadId={id}")),
        (Call::ListUploads, "/staging?uploads".to_owned()),
        (Call::Read, "/staging/o".to_owned()),
        (Call::Read, "/storage/v1/b/staging/o/o?alt=media".to_owned()),
        (Call::Metadata, "/storage/v1/b/staging/o/o".to_owned()),
        (Call::List, "/storage/v1/b/staging/o".to_owned()),
        (Call::Bucket, "/storage/v1/b/staging".to_owned()),
    ] {
        for stage in [Stage::Head, Stage::Before, Stage::After] {
            world.google.rule(Rule::at(stage).call(call).times(1).act(Act::Status(429)));
            assert_eq!(world.get(&path).await.status, 429, "{path}");
            assert_eq!(world.get(&path).await.status, 200, "{path}: once");
        }
    }
    assert_eq!(world.google.calls(Call::ListParts), 6);
}

#[tokio::test]
async fn downloads_come_flipped_cut_and_late() {
    let world = World::new().await;
    let content = bytes(600_000, 3);
    world.google.put_object(STAGING, "o", "text/plain", content.clone());
    let paths = ["/staging/o", "/storage/v1/b/staging/o/o?alt=media"];
    let mut flipped = content.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for path in paths {
        for stage in [Stage::Before, Stage::After] {
            world.google.rule(Rule::at(stage).call(Call::Read).object("o").times(1).act(Act::Flipped));
            assert!(world.get(path).await.body == flipped, "{path}");
            world.google.rule(Rule::at(stage).call(Call::Read).bucket(STAGING).times(1).act(Act::Truncated));
            let mut cut = world.ask(Method::GET, path).send().await.expect("a head");
            let mut got = Vec::new();
            let broken = loop {
                match cut.chunk().await {
                    Ok(Some(bytes)) => got.extend_from_slice(&bytes),
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            assert!(broken && got.len() <= content.len() / 2 && content.starts_with(&got), "{path}");
        }
        world.google.rule(Rule::at(Stage::After).call(Call::Read).times(1).act(Act::Stalled));
        let mut stalled = world.ask(Method::GET, path).send().await.expect("a head");
        let mut got = Vec::new();
        while let Ok(chunk) = tokio::time::timeout(Duration::from_millis(500), stalled.chunk()).await {
            got.extend_from_slice(&chunk.expect("an open connection").expect("no end"));
        }
        assert!(content.starts_with(&got) && got.len() == content.len() / 2, "{path}: {}", got.len());
        world.google.spoil_next(1, Spoilt::Flipped);
        assert!(world.get(path).await.body == flipped, "{path}");
        assert!(world.get(path).await.body == content, "{path}: used up");
    }
    world.google.rule(Rule::at(Stage::Before).call(Call::Read).times(1).delay(Duration::from_millis(400)));
    let started = now();
    assert_eq!(world.get("/staging/o").await.status, 200);
    assert!(started.elapsed() >= Duration::from_millis(400));
    world.google.store_script().next(1, Mishap::Status(503));
    assert_eq!(world.get("/staging/o").await.code(), (503, "ServiceUnavailable".to_owned()));
}

/// A request is held at a point, its client goes away, and it goes on: what was asked for is done all the same.
#[tokio::test]
async fn a_completion_is_held_before_and_after_its_effect() {
    let world = World::new().await;
    for (stage, done) in [(Stage::Before, false), (Stage::After, true)] {
        for cut in [false, true] {
            world.google.delete_object(STAGING, "o");
            let id = world.initiate("o").await;
            let etag = world.store_part("o", &id, 1, b"x".to_vec()).await;
            let trap = world.google.trap(Rule::at(stage).call(Call::Complete).object("o"));
            let client = tokio::spawn(world.complete("o", &id, &[(1, &etag)]).send());
            trap.hit(PATIENCE).await.unwrap();
            let what = format!("{stage:?}, cut: {cut}");
            assert_eq!(world.google.object(STAGING, "o").is_some(), done, "{what}");
            client.abort();
            assert!(client.await.is_err_and(|ended| ended.is_cancelled()));
            if cut {
                trap.cut();
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert_eq!(world.google.object(STAGING, "o").is_some(), done, "{what}");
            } else {
                trap.release();
                let seen = devkit::waiting::until(PATIENCE, Duration::from_millis(10), async || {
                    world.google.object(STAGING, "o").is_some()
                });
                assert!(seen.await, "{what}: a client that is gone changes nothing");
            }
        }
    }
}

#[tokio::test]
async fn one_part_is_held_while_others_pass() {
    let world = World::new().await;
    let id = world.initiate("o").await;
    let trap = world.google.trap(Rule::at(Stage::Before).call(Call::Part).part(2));
    let second = tokio::spawn(world.part("o", &id, 2, b"x".to_vec()).send());
    trap.hit(PATIENCE).await.unwrap();
    for number in [1, 3] {
        world.store_part("o", &id, number, b"y".to_vec()).await;
    }
    let numbers =
        || -> Vec<u16> { world.google.uploads(STAGING)[0].parts.iter().map(|part| part.number).collect() };
    assert_eq!(numbers(), [1, 3]);
    trap.release();
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    assert_eq!(numbers(), [1, 2, 3]);
}

#[tokio::test]
async fn the_store_goes_away_and_comes_back_with_what_it_had() {
    let mut world = World::new().await;
    let id = world.initiate("o").await;
    let etag = world.store_part("o", &id, 1, b"x".to_vec()).await;
    let trap = world.google.trap(Rule::at(Stage::Before).call(Call::Complete));
    let client = tokio::spawn(world.complete("o", &id, &[(1, &etag)]).send());
    trap.hit(PATIENCE).await.unwrap();
    world.google.stop_store().await;
    assert!(client.await.unwrap().is_err(), "its connection ended");
    trap.release();
    assert!(world.ask(Method::GET, "/staging/o").send().await.expect_err("nobody").is_connect());
    world.google.restart_store().await.unwrap();
    assert_eq!(world.google.object(STAGING, "o"), None, "what was not done will not be done");
    assert_eq!(said(world.complete("o", &id, &[(1, &etag)])).await.status, 200);
}
