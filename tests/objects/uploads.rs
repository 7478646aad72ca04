//! Uploads in parts, by signed URLs.

use std::time::Duration;

use devkit::google::{Act, Call, Rule, Stage};
use maple_router::gateway::objects::store::{Absence, InvalidCode, Part, StoreError, UploadId};

use crate::world::{CONTENT, PART, STAGING, VALID, World, bytes, name, whole, written};

#[tokio::test]
async fn twenty_mebibytes_out_of_order_and_twice() {
    for world in [World::new().await, World::by_key_file().await] {
        let content = bytes(20 << 20, 1);
        let staged = name(STAGING, "u/Größe & Maß+1");
        let upload = world.store.initiate(&staged, "image/png").await.unwrap();
        assert_eq!(world.store.list_parts(&staged, &upload).await.unwrap(), []);
        let parts: Vec<&[u8]> = content.chunks(PART).collect();
        for number in [4, 1, 3, 1, 2, 4] {
            let part = parts[usize::try_from(number).unwrap() - 1];
            assert_eq!(world.put(&staged, &upload, number, part).await, 200, "{number}");
        }
        let listed = world.store.list_parts(&staged, &upload).await.unwrap();
        assert_eq!(listed.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(listed.iter().all(|part| part.size == PART as u64), "{listed:?}");
        assert_eq!(world.store.stat(&staged).await.unwrap(), None);

        let named: Vec<_> = listed.into_iter().map(|part| (part.number, part.etag)).collect();
        world.store.complete(&staged, &upload, &named).await.unwrap();
        let stat = world.store.stat(&staged).await.unwrap().unwrap();
        assert_eq!((stat.length, stat.crc32c), (content.len() as u64, crc32c::crc32c(&content)));
        let mut reading = world.store.read(&staged, stat.generation, 0).await.unwrap();
        assert_eq!(reading.said(), stat);
        assert!(whole(&mut reading).await.unwrap() == content, "byte for byte");

        let blob = name(CONTENT, "blobs/f/1");
        let copy = world.store.rewrite(&staged, stat.generation, &blob).await.unwrap();
        assert_eq!((copy.length, copy.crc32c), (stat.length, stat.crc32c));
        assert_eq!(world.store.stat(&blob).await.unwrap(), Some(copy));
        world.store.delete(&staged, Some(stat.generation)).await.unwrap();
        assert_eq!(world.store.stat(&staged).await.unwrap(), None);
        let seen = world.google.object(CONTENT, "blobs/f/1").unwrap();
        assert_eq!(seen.content_type.as_deref(), Some("image/png"));
        assert!(world.google.object_bytes(CONTENT, "blobs/f/1").unwrap() == content);
    }
}

#[tokio::test]
async fn a_part_whose_digest_is_signed_takes_no_other_bytes() {
    let world = World::new().await;
    let staged = name(STAGING, "o");
    let upload = world.store.initiate(&staged, "text/plain").await.unwrap();
    let digest = md5::compute(b"part").0;
    let url = world.store.part_url(&staged, &upload, 1, Some(digest), VALID).await.unwrap().url;
    for (body, said, status) in [
        ("pare", Some(digest), 400),
        ("pare", Some(md5::compute(b"pare").0), 403),
        ("part", None, 400),
        ("part", Some(digest), 200),
    ] {
        let put = world.http.put(&url).body(body);
        let put = said.into_iter().fold(put, |put, digest| put.header("content-md5", written(digest)));
        assert_eq!(put.send().await.unwrap().status().as_u16(), status, "{body} {said:?}");
    }
    let etag = hex::encode(digest);
    assert_eq!(world.store.list_parts(&staged, &upload).await.unwrap(), [Part { number: 1, etag, size: 4 }]);
}

#[tokio::test]
async fn a_url_ends_and_is_for_one_part_of_one_upload() {
    let world = World::new().await;
    let staged = name(STAGING, "o");
    let upload = world.store.initiate(&staged, "text/plain").await.unwrap();
    let link = world.store.part_url(&staged, &upload, 1, None, Duration::from_secs(60)).await.unwrap();
    let put = |url: String| async { world.http.put(url).body("x").send().await.unwrap().status().as_u16() };
    assert_eq!(put(link.url.clone()).await, 200);
    assert_eq!(put(link.url.replace("partNumber=1", "partNumber=2")).await, 403);
    world.google.set_clock_offset(62);
    assert_eq!(put(link.url.clone()).await, 400);
    for (number, validity) in
        [(0, VALID), (10_001, VALID), (1, Duration::ZERO), (1, Duration::from_secs(604_801))]
    {
        let refused = world.store.part_url(&staged, &upload, number, None, validity).await.unwrap_err();
        assert!(!refused.is_about_us() && !refused.is_transient(), "{refused}");
    }
}

#[tokio::test]
async fn parts_are_listed_page_by_page() {
    let world = World::new().await;
    let staged = name(STAGING, "o");
    let upload = world.store.initiate(&staged, "text/plain").await.unwrap();
    let url = world.store.part_url(&staged, &upload, 1, None, VALID).await.unwrap().url;
    let token = world.google.token_of(world.google.service_account_email());
    let address = url.split_once('?').unwrap().0;
    for number in 1..=2_001_u32 {
        let number = (number * 3).to_string();
        let put =
            world.http.put(address).query(&[("partNumber", number.as_str()), ("uploadId", upload.as_str())]);
        assert_eq!(put.bearer_auth(&token).body("x").send().await.unwrap().status(), 200);
    }
    let before = world.google.calls(Call::ListParts);
    let listed = world.store.list_parts(&staged, &upload).await.unwrap();
    assert!(listed.iter().map(|part| part.number).eq((1..=2_001).map(|number| number * 3)));
    assert_eq!(world.google.calls(Call::ListParts) - before, 3);
}

#[tokio::test]
async fn a_completion_whose_answer_is_lost_is_repeated_and_the_object_decides() {
    let world = World::hasty().await;
    for (object, act) in [
        ("a", Act::Status(500)),
        ("b", Act::Status(503)),
        ("c", Act::Disconnect),
        ("d", Act::Silence),
        ("e", Act::ErrorInside),
    ] {
        let staged = name(STAGING, object);
        let (upload, parts) = world.begun(&staged, &[b"content"]).await;
        world.google.rule(Rule::at(Stage::After).call(Call::Complete).times(1).act(act));
        let lost = world.store.complete(&staged, &upload, &parts).await.unwrap_err();
        assert!(matches!(lost, StoreError::Away { .. }) && lost.is_transient(), "{act:?}: {lost}");
        let again = world.store.complete(&staged, &upload, &parts).await.unwrap_err();
        assert_eq!(again, StoreError::Gone, "{act:?}");
        assert_eq!(world.store.list_parts(&staged, &upload).await.unwrap_err(), StoreError::Gone);
        let stat = world.store.stat(&staged).await.unwrap().unwrap();
        assert_eq!((stat.length, stat.crc32c), (7, crc32c::crc32c(b"content")), "{act:?}");
    }
}

#[tokio::test]
async fn a_completion_that_fails_before_its_effect_is_repeated() {
    let world = World::hasty().await;
    for (object, act) in [("a", Act::Status(500)), ("b", Act::Disconnect), ("c", Act::ErrorInside)] {
        let staged = name(STAGING, object);
        let (upload, parts) = world.begun(&staged, &[b"content"]).await;
        world.google.rule(Rule::at(Stage::Before).call(Call::Complete).times(1).act(act));
        let lost = world.store.complete(&staged, &upload, &parts).await.unwrap_err();
        assert!(lost.is_transient(), "{act:?}: {lost}");
        assert_eq!(world.store.stat(&staged).await.unwrap(), None, "{act:?}");
        world.store.complete(&staged, &upload, &parts).await.unwrap();
    }
}

#[tokio::test]
async fn a_list_that_is_not_the_stores_is_refused_by_name() {
    let world = World::new().await;
    let staged = name(STAGING, "o");
    let (upload, parts) = world.begun(&staged, &[b"small", b"last"]).await;
    let code = |error: StoreError| {
        let StoreError::Invalid { code, .. } = error else { panic!("{error}") };
        code
    };
    let other = vec![(1, parts[1].1.clone())];
    let missing = vec![(3, parts[0].1.clone())];
    let turned = vec![parts[1].clone(), parts[0].clone()];
    for (list, expected) in [
        (other, InvalidCode::InvalidPart),
        (missing, InvalidCode::InvalidPart),
        (turned, InvalidCode::InvalidPartOrder),
        (parts.clone(), InvalidCode::EntityTooSmall),
        (vec![], InvalidCode::Other(400)),
    ] {
        let refused = world.store.complete(&staged, &upload, &list).await.unwrap_err();
        assert!(!refused.is_transient() && !refused.is_about_us());
        assert_eq!(code(refused), expected);
    }
    world.store.complete(&staged, &upload, &parts[..1]).await.unwrap();
}

#[tokio::test]
async fn what_is_aborted_is_gone_and_may_be_aborted_again() {
    let world = World::new().await;
    let staged = name(STAGING, "o");
    let (upload, parts) = world.begun(&staged, &[b"x"]).await;
    world.google.rule(Rule::at(Stage::After).call(Call::Abort).times(1).act(Act::Disconnect));
    let lost = world.store.abort(&staged, &upload).await.unwrap_err();
    assert!(matches!(lost, StoreError::Away { how: Absence::Broken, .. }), "{lost:?}");
    for _ in 0..2 {
        world.store.abort(&staged, &upload).await.unwrap();
    }
    world.store.abort(&staged, &UploadId::new("never")).await.unwrap();
    assert_eq!(world.store.complete(&staged, &upload, &parts).await.unwrap_err(), StoreError::Gone);
    assert_eq!(world.put(&staged, &upload, 2, b"late").await, 404);
    assert!(world.google.uploads(STAGING).is_empty());
}
