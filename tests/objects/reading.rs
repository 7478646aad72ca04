//! Reads of one generation, through connections that break.

use devkit::google::{Act, Call, Rule, Spoilt, Stage};
use maple_router::gateway::objects::store::{Absence, InvalidCode, StoreError};

use crate::world::{CONTENT, STAGING, World, bytes, name, whole};

#[tokio::test]
async fn a_read_is_of_one_generation_whoever_overwrites() {
    let world = World::hasty().await;
    let (first, second) = (bytes(3 << 20, 1), bytes(3 << 20, 2));
    let generation = world.there(STAGING, "o", first.clone());
    let staged = name(STAGING, "o");
    let mut reading = world.store.read(&staged, generation, 0).await.unwrap();
    let mut read = reading.chunk().await.unwrap().unwrap().to_vec();
    let other = world.there(STAGING, "o", second.clone());
    read.extend(whole(&mut reading).await.unwrap());
    assert!(read == first, "what was begun is what comes");
    assert_eq!(world.store.read(&staged, generation, 0).await.unwrap_err(), StoreError::Changed);
    let mut reading = world.store.read(&staged, other, 0).await.unwrap();
    assert!(whole(&mut reading).await.unwrap() == second);

    // Broken in the middle, it is not gone on with by other bytes.
    world.google.rule(Rule::at(Stage::After).call(Call::Read).times(1).act(Act::Truncated));
    let mut reading = world.store.read(&staged, other, 0).await.unwrap();
    reading.chunk().await.unwrap().unwrap();
    world.there(STAGING, "o", first);
    assert_eq!(whole(&mut reading).await.unwrap_err(), StoreError::Changed);
    world.google.delete_object(STAGING, "o");
    assert_eq!(world.store.read(&staged, other, 0).await.unwrap_err(), StoreError::Gone);
}

#[tokio::test]
async fn a_read_that_breaks_in_the_middle_is_resumed_once() {
    let world = World::hasty().await;
    let content = bytes(3 << 20, 1);
    let generation = world.there(CONTENT, "o", content.clone());
    for (act, how) in [(Act::Truncated, Absence::Broken), (Act::Stalled, Absence::Silent)] {
        let before = world.google.calls(Call::Read);
        world.google.rule(Rule::at(Stage::After).call(Call::Read).times(1).act(act));
        let mut reading = world.store.read(&name(CONTENT, "o"), generation, 0).await.unwrap();
        assert!(whole(&mut reading).await.unwrap() == content, "{act:?}");
        assert_eq!(world.google.calls(Call::Read) - before, 2, "{act:?}");

        world.google.rule(Rule::at(Stage::After).call(Call::Read).times(2).act(act));
        let mut reading = world.store.read(&name(CONTENT, "o"), generation, 0).await.unwrap();
        for _ in 0..2 {
            let lost = whole(&mut reading).await.unwrap_err();
            assert!(
                matches!(lost, StoreError::Away { how: found, .. } if found == how || found == Absence::Broken)
            );
        }
        assert_eq!(world.google.calls(Call::Read) - before, 4, "{act:?}");
    }
    // Where the store is away when it is asked again, that is the error.
    world.google.rule(Rule::at(Stage::After).call(Call::Read).times(1).act(Act::Truncated));
    let mut reading = world.store.read(&name(CONTENT, "o"), generation, 0).await.unwrap();
    world.google.rule(Rule::at(Stage::Before).call(Call::Read).times(1).act(Act::Status(503)));
    let lost = whole(&mut reading).await.unwrap_err();
    assert!(matches!(lost, StoreError::Away { how: Absence::Status(503), .. }), "{lost:?}");
}

#[tokio::test]
async fn other_bytes_than_the_store_says_have_another_checksum() {
    let world = World::new().await;
    let generation = world.there(CONTENT, "o", bytes(1 << 20, 1));
    for (spoilt, equal) in [(None, true), (Some(Spoilt::Flipped), false)] {
        world.google.spoil_next(spoilt.iter().len(), Spoilt::Flipped);
        let mut reading = world.store.read(&name(CONTENT, "o"), generation, 0).await.unwrap();
        let read = whole(&mut reading).await.unwrap();
        assert_eq!(crc32c::crc32c(&read) == reading.said().crc32c, equal, "{spoilt:?}");
        assert_eq!(read.len() as u64, reading.said().length);
    }
}

#[tokio::test]
async fn a_read_begins_where_it_is_told_to() {
    let world = World::new().await;
    let content = bytes(2 << 20, 1);
    let (o, empty) = (name(CONTENT, "o"), name(CONTENT, "empty"));
    let generation = world.there(CONTENT, "o", content.clone());
    for offset in [1, 1_000_000, content.len() - 1] {
        world.google.rule(Rule::at(Stage::After).call(Call::Read).times(1).act(Act::Truncated));
        let mut reading = world.store.read(&o, generation, offset as u64).await.unwrap();
        let said = reading.said();
        assert_eq!(
            (said.length, said.crc32c),
            (content.len() as u64, crc32c::crc32c(&content)),
            "of all of it"
        );
        assert!(whole(&mut reading).await.unwrap() == content[offset..], "{offset}");
        world.google.clear_rules();
    }
    let beyond = world.store.read(&o, generation, content.len() as u64).await.unwrap_err();
    assert!(matches!(beyond, StoreError::Invalid { code: InvalidCode::InvalidRange, .. }), "{beyond:?}");
    let generation = world.there(CONTENT, "empty", "");
    let mut reading = world.store.read(&empty, generation, 0).await.unwrap();
    assert_eq!((reading.said().length, whole(&mut reading).await.unwrap()), (0, vec![]));
}
