//! Many at once: sessions that nobody finishes, owners within their bounds, two daemons over one database.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use maple_router::config::Size;
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{CONTENT, KEY, STAGING, Scene, sha256, text};

#[tokio::test]
async fn ten_thousand_abandoned_sessions_expire_within_a_minute_while_the_api_answers() {
    let scene = Scene::with(|config| config.uploads.sessions_per_owner = 1_000_000).await;
    // A hundred of them have brought a part: their bytes go, too.
    let content = text(100);
    let mut begun = Vec::new();
    for _ in 0..100 {
        let session = scene.session(&content, json!({})).await;
        scene.send(&session, &[1], &content).await;
        begun.push(session);
    }
    let sql = "INSERT INTO content.uploads (id, form_id, owner, idempotency_key, request_digest, token_sha256, file_name, content_type,
                 length, part_size, planned_blob, expires_at, unattached_ttl)
               SELECT gen_random_uuid(), 'contact', 'o' || n % 100, n::text, sha256('r'), sha256('t'), 'a', 'text/plain', 10, 8388608,
                 gen_random_uuid(), now() + interval '1 d', '2 d' FROM generate_series(1, 9900) AS n;
               INSERT INTO content.staging (bucket, object, upload_id, role)
               SELECT 'staging', 'staging/' || u.id, u.id, 'session' FROM content.uploads u
               WHERE NOT EXISTS (SELECT FROM content.staging s WHERE s.upload_id = u.id);
               UPDATE content.uploads SET expires_at = now() - interval '1 s'";
    scene.eyes.batch_execute(sql).await.expect("abandoned");
    let open = scene.session(&content, json!({"owner": "alive"})).await;
    assert_eq!(scene.kept(), (0, 100, 0));
    let began = Instant::now();
    let upkeep = scene.upkeep();
    let asking = async {
        let mut took = Vec::new();
        loop {
            let asked = Instant::now();
            assert_eq!(scene.of(&open, Method::GET, "", None).await.status, 200);
            took.push(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
            let left: i64 = scene.one("SELECT count(*) FROM content.staging").await;
            if left <= 1 {
                return took;
            }
        }
    };
    let (passed, mut took) = tokio::join!(upkeep.pass(), asking);
    passed.expect("a pass");
    took.sort();
    let p95 = took[took.len() * 95 / 100];
    println!("10,000 sessions gone in {:?}; API p95 {p95:?} of {} requests", began.elapsed(), took.len());
    assert_eq!(scene.kept(), (0, 0, 0), "the store is empty");
    let ended: i64 = scene
        .one("SELECT count(*) FROM router.transitions WHERE lifecycle = 'upload' AND to_state = 'aborted' AND actor_type = 'system'")
        .await;
    assert_eq!(ended, 10_000);
    let gone = scene.of(&begun[0], Method::POST, "/parts", Some(json!({"numbers": [1]}))).await;
    assert_eq!(gone.code(), (410, "expired".to_owned()));
}

#[tokio::test]
async fn an_owner_has_its_bounds_however_many_ask_at_once() {
    let scene = Scene::with(|config| {
        config.uploads.sessions_per_owner = 5;
        config.uploads.max_file = Size::mebibytes(1);
        config.uploads.bytes_per_owner = Size::mebibytes(2);
    })
    .await;
    let wanted = Scene::wanted(b"0123456789", &json!({}));
    let answers: Vec<u16> = futures::stream::iter(0..20)
        .map(|n| {
            let (wanted, scene) = (wanted.clone(), &scene);
            async move { scene.create(&format!("k{n}"), wanted).await.status }
        })
        .buffer_unordered(20)
        .collect()
        .await;
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 5, "{answers:?}");
    let refused = scene.create("one-more", wanted.clone()).await;
    assert_eq!(refused.code(), (429, "sessions".to_owned()));
    let large = json!({"owner": "another", "length": (1 << 20) - 1});
    for (key, expected) in [("a", 201), ("b", 201), ("c", 429)] {
        let said = scene.create(key, Scene::wanted(b"", &large)).await;
        assert_eq!(said.status, expected, "{}", said.text);
    }
    let first = scene.create("k0", wanted).await;
    assert!([201, 429].contains(&first.status), "what was made before is answered as it was");
}

#[tokio::test]
async fn the_same_request_many_times_at_once_is_one_session() {
    let scene = Scene::new().await;
    let wanted = Scene::wanted(b"0123456789", &json!({}));
    let answers: Vec<String> = futures::stream::iter(0..16)
        .map(|_| {
            let (wanted, scene) = (wanted.clone(), &scene);
            async move { scene.create("the-same", wanted).await.text }
        })
        .buffer_unordered(16)
        .collect()
        .await;
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.uploads").await, 1);
}

#[tokio::test]
async fn links_asked_for_at_once_lead_to_one_multipart_upload() {
    let scene = Scene::new().await;
    let content = text(100);
    let session = scene.session(&content, json!({})).await;
    let asked = futures::future::join_all(
        (0..8).map(|_| scene.of(&session, Method::POST, "/parts", Some(json!({"numbers": [1]})))),
    );
    let answers = asked.await;
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(scene.google.uploads(STAGING).len(), 1, "the others were given up");
}

#[tokio::test]
async fn equal_files_that_are_committed_at_once_are_one_blob() {
    let scene = Scene::new().await;
    let content = text(5000);
    let mut sessions = Vec::new();
    for _ in 0..4 {
        let session = scene.session(&content, json!({})).await;
        scene.send(&session, &[1], &content).await;
        assert_eq!(scene.complete(&session, &content).await.status, 202);
        sessions.push(session);
    }
    // Two daemons.
    let (_one, _other) = (scene.committing(), scene.committing());
    for session in &sessions {
        assert_eq!(scene.ended(session).await["state"], "committed");
    }
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.blobs").await, 1);
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.blob_refs").await, 4);
    scene.upkeep().pass().await.expect("a pass");
    let extra: i64 = scene.one("SELECT count(*) FROM content.staging WHERE role = 'blob'").await;
    assert_eq!(scene.google.objects(CONTENT).len() as i64, 1 + extra, "whatever else was made has its row");
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_in_words() {
    let scene = Scene::new().await;
    let base = Scene::wanted(b"0123456789", &json!({}));
    let with = |more: serde_json::Value| {
        let mut wanted = base.clone();
        wanted.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        wanted
    };
    for (more, status, code) in [
        (json!({"file_name": "../a"}), 422, "name"),
        (json!({"file_name": "a\u{202e}fdp.exe"}), 422, "name"),
        (json!({"file_name": "a\u{0}"}), 422, "name"),
        (json!({"content_type": "application/x-msdownload"}), 415, "type"),
        (json!({"length": 0}), 422, "guard"),
        (json!({"length": 400 << 20}), 413, "too_large"),
        (json!({"length": -1}), 400, "bad_request"),
        (json!({"length": "10"}), 400, "bad_request"),
        (json!({"sha256": "xyz"}), 422, "guard"),
        (json!({"unknown": 1}), 400, "bad_request"),
        (json!({"owner": ""}), 422, "guard"),
    ] {
        let refused = scene.create("k", with(more.clone())).await;
        assert_eq!(refused.code(), (status, code.to_owned()), "{more}: {}", refused.text);
        assert!(refused.body["detail"].is_string() && refused.body["remedy"].is_string(), "{}", refused.text);
    }
    let keyless = scene.ask(Method::POST, "/v1/uploads", KEY, Some(base.clone())).await;
    assert_eq!(keyless.code(), (428, "precondition_required".to_owned()));
    for (content_type, body, code) in [
        ("text/plain", "{}".to_owned(), (415, "unsupported_media_type")),
        ("application/json", "{".to_owned(), (400, "bad_request")),
        ("application/json", "[]".to_owned(), (400, "bad_request")),
        ("application/json", format!("\"{}\"", "x".repeat(70_000)), (413, "too_large")),
    ] {
        let request = scene.http.post(format!("{}/v1/uploads", scene.base)).bearer_auth(KEY);
        let request = request.header("idempotency-key", "k").header("content-type", content_type).body(body);
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let said: serde_json::Value = answer.json().await.expect("a problem");
        let kind = format!("urn:maple-router:problem:{}", code.1);
        assert_eq!((status, said["type"].as_str()), (code.0, Some(kind.as_str())));
    }
    let host = scene
        .http
        .get(format!("{}/u", scene.base))
        .header("host", "evil.example")
        .send()
        .await
        .expect("an answer");
    assert_eq!(host.status().as_u16(), 421);
    let nowhere = scene.ask(Method::GET, "/v1/nothing", KEY, None).await;
    assert_eq!(nowhere.code(), (404, "not_found".to_owned()));
    let method = scene.ask(Method::PUT, "/v1/uploads", KEY, None).await;
    assert_eq!(method.code(), (405, "method_not_allowed".to_owned()));
    assert_eq!(scene.one::<i64>("SELECT count(*) FROM content.uploads").await, 0, "nothing was made");
    let content = text(100);
    let session = scene.session(&content, json!({"sha256": sha256(&content)})).await;
    for (numbers, code) in
        [(json!([]), "guard"), (json!([0]), "guard"), (json!([2]), "guard"), (json!(["1"]), "bad_request")]
    {
        let refused = scene.of(&session, Method::POST, "/parts", Some(json!({"numbers": numbers}))).await;
        assert_eq!(refused.code().1, code, "{numbers}: {}", refused.text);
    }
    let early = scene.complete(&session, &content).await;
    assert_eq!(early.code(), (409, "not_possible".to_owned()), "{}", early.text);
    scene.send(&session, &[1], &content).await;
    let other = scene.of(&session, Method::POST, "/complete", Some(json!({"sha256": "ab".repeat(32)}))).await;
    assert_eq!(other.code(), (422, "digest_mismatch".to_owned()));
    let long = scene.of(&session, Method::GET, "?wait=21", None).await;
    assert_eq!(long.code(), (422, "guard".to_owned()));
    let odd = scene.of(&session, Method::GET, "?wiat=1", None).await;
    assert_eq!(odd.code(), (400, "bad_request".to_owned()));
    let unattached = scene.attach(&session, Uuid::new_v4()).await;
    assert_eq!(unattached.code(), (422, "guard".to_owned()), "{}", unattached.text);
}

#[tokio::test]
async fn a_part_sent_to_somebody_elses_session_or_after_the_end_is_refused_by_the_store() {
    let scene = Scene::new().await;
    let _committing = scene.committing();
    let content = text(100);
    let session = scene.session(&content, json!({})).await;
    let links = scene.of(&session, Method::POST, "/parts", Some(json!({"numbers": [1]}))).await;
    let url = links.body["parts"][0]["url"].as_str().expect("a link").to_owned();
    let number_changed = url.replace("partNumber=1", "partNumber=2");
    let put = |url: String| scene.http.put(url).body(content.clone()).send();
    assert_eq!(put(number_changed).await.expect("an answer").status().as_u16(), 403, "the number is signed");
    assert_eq!(put(url.clone()).await.expect("an answer").status().as_u16(), 200);
    assert_eq!(scene.complete(&session, &content).await.status, 202);
    assert_eq!(scene.ended(&session).await["state"], "committed");
    assert_eq!(put(url).await.expect("an answer").status().as_u16(), 404, "the upload is over");
    let object: String = scene.one("SELECT object FROM content.blobs").await;
    assert_eq!(scene.google.object_bytes(CONTENT, &object).expect("kept"), content);
}

#[tokio::test]
async fn a_part_that_is_sent_again_with_other_bytes_after_the_end_of_the_list_is_noticed() {
    let scene = Scene::new().await;
    let content = text(100);
    let session = scene.session(&content, json!({})).await;
    scene.send(&session, &[1], &content).await;
    assert_eq!(scene.complete(&session, &content).await.status, 202);
    let mut other = content.clone();
    other[3] ^= 1;
    // The link is still good, and the store takes it.
    let sql = "SELECT store_upload_id FROM content.uploads";
    let id: String = scene.one(sql).await;
    let object: String = scene.one("SELECT object FROM content.staging WHERE role = 'session'").await;
    let token = scene.google.token_of(scene.google.service_account_email());
    let url = format!("{}/{STAGING}/{object}?partNumber=1&uploadId={id}", scene.google.storage_endpoint());
    let put = scene.http.put(url).bearer_auth(token).body(other).send().await.expect("an answer");
    assert_eq!(put.status().as_u16(), 200);
    let _committing = scene.committing();
    let shown = scene.ended(&session).await;
    assert_eq!(shown["problem"]["type"], "urn:maple-router:problem:parts_missing", "{shown}");
}
