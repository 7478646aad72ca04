//! Copies that overwrite nothing, and deletes that hit nothing else.

use devkit::google::{Act, Call, Right, Rule, Stage};
use maple_router::gateway::objects::store::StoreError;

use crate::world::{CONTENT, STAGING, World, bytes, name};

#[tokio::test]
async fn a_copy_whose_answer_is_lost_exists_and_is_the_same() {
    // The account may overwrite nothing, or it may: the condition holds for either.
    for rights in [&[Right::Create, Right::Get][..], &[Right::Create, Right::Get, Right::Delete]] {
        let world = World::hasty().await;
        world.grant(CONTENT, rights);
        for (object, act) in [("a", Act::Status(503)), ("b", Act::Disconnect), ("c", Act::Silence)] {
            let (from, to) = (name(STAGING, object), name(CONTENT, object));
            let generation = world.there(STAGING, object, "content");
            world.google.rule(Rule::at(Stage::After).call(Call::Rewrite).times(1).act(act));
            let lost = world.store.rewrite(&from, generation, &to).await.unwrap_err();
            assert!(lost.is_transient(), "{act:?}: {lost}");
            let again = world.store.rewrite(&from, generation, &to).await.unwrap_err();
            assert_eq!(again, StoreError::Exists, "{act:?}");
            let (one, other) = (world.store.stat(&from).await.unwrap(), world.store.stat(&to).await.unwrap());
            let (one, other) = (one.unwrap(), other.unwrap());
            assert_eq!((one.length, one.crc32c), (other.length, other.crc32c));
        }
        world.there(CONTENT, "other", "foreign");
        let generation = world.there(STAGING, "other", "content");
        let refused = world.store.rewrite(&name(STAGING, "other"), generation, &name(CONTENT, "other")).await;
        assert_eq!(refused.unwrap_err(), StoreError::Exists);
        assert_eq!(world.google.object_bytes(CONTENT, "other").unwrap(), b"foreign");
    }
}

#[tokio::test]
async fn a_copy_goes_in_rounds_until_it_is_done() {
    let world = World::new().await;
    let content = bytes(1_000_000, 3);
    let generation = world.there(STAGING, "o", content.clone());
    world.google.set_rewrite_round(300_000);
    let copy = world.store.rewrite(&name(STAGING, "o"), generation, &name(CONTENT, "o")).await.unwrap();
    assert_eq!((copy.length, world.google.calls(Call::Rewrite)), (1_000_000, 4));
    assert!(world.google.object_bytes(CONTENT, "o").unwrap() == content);
    // Broken off between two rounds, it has had no effect.
    world.google.rule(Rule::at(Stage::Before).call(Call::Rewrite).skip(2).times(1).act(Act::Status(500)));
    let lost = world.store.rewrite(&name(STAGING, "o"), generation, &name(CONTENT, "p")).await.unwrap_err();
    assert!(lost.is_transient(), "{lost}");
    assert_eq!(world.store.stat(&name(CONTENT, "p")).await.unwrap(), None);
}

#[tokio::test]
async fn only_the_generation_that_is_meant_is_copied() {
    let world = World::new().await;
    let first = world.there(STAGING, "o", "first");
    let second = world.there(STAGING, "o", "second");
    let to = name(CONTENT, "o");
    let gone = world.store.rewrite(&name(STAGING, "o"), first, &to).await.unwrap_err();
    assert_eq!(gone, StoreError::Gone);
    assert_eq!(world.store.stat(&to).await.unwrap(), None);
    world.store.rewrite(&name(STAGING, "o"), second, &to).await.unwrap();
    let missing = world.store.rewrite(&name(STAGING, "none"), first, &name(CONTENT, "n")).await;
    assert_eq!(missing.unwrap_err(), StoreError::Gone);
}

#[tokio::test]
async fn a_delete_hits_the_generation_that_is_meant_and_may_be_repeated() {
    let world = World::new().await;
    let staged = name(STAGING, "a/b c");
    let first = world.there(STAGING, "a/b c", "first");
    let second = world.there(STAGING, "a/b c", "second");
    assert_eq!(world.store.delete(&staged, Some(first)).await.unwrap_err(), StoreError::Changed);
    assert_eq!(world.google.object_bytes(STAGING, "a/b c").unwrap(), b"second");
    world.google.rule(Rule::at(Stage::After).call(Call::Delete).times(1).act(Act::Disconnect));
    assert!(world.store.delete(&staged, Some(second)).await.unwrap_err().is_transient());
    world.store.delete(&staged, Some(second)).await.unwrap();
    world.store.delete(&staged, None).await.unwrap();
    world.there(STAGING, "a/b c", "third");
    world.store.delete(&staged, None).await.unwrap();
    assert!(world.google.objects(STAGING).is_empty());
}
