//! Every right that is missing is named; what is hidden is told from what is forbidden.

use devkit::google::{Act, Call as Asked, Right, Rule, Stage};
use maple_router::gateway::objects::store::{Call, ObjectStore, Permission, StoreError};

use crate::world::{CONTENT, STAGING, World, name};

/// Each call, and the permission that it lacks where it has one right less.
async fn refusals(world: &World) -> Vec<(Call, Right, Option<StoreError>)> {
    let store: &ObjectStore = &world.store;
    let (there, fresh) = (name(STAGING, "there"), name(STAGING, "fresh"));
    let upload = maple_router::gateway::objects::store::UploadId::new("none");
    let generation = world.there(STAGING, "there", "x");
    let source = world.there(CONTENT, "source", "x");
    world.google.delete_object(STAGING, "copy");
    let gone = |error: &StoreError| *error != StoreError::Gone;
    vec![
        (Call::Initiate, Right::Create, store.initiate(&fresh, "a/b").await.err()),
        (Call::ListParts, Right::Create, store.list_parts(&fresh, &upload).await.err().filter(gone)),
        (
            Call::Complete,
            Right::Create,
            store.complete(&fresh, &upload, &[(1, "a".to_owned())]).await.err().filter(gone),
        ),
        (Call::Abort, Right::Create, store.abort(&fresh, &upload).await.err()),
        (
            Call::Rewrite,
            Right::Create,
            store.rewrite(&name(CONTENT, "source"), source, &name(STAGING, "copy")).await.err(),
        ),
        (Call::Stat, Right::Get, store.stat(&there).await.err()),
        (Call::Read, Right::Get, store.read(&there, generation, 0).await.err()),
        (Call::Delete, Right::Delete, store.delete(&there, Some(generation)).await.err()),
        (Call::Bucket, Right::Inspect, store.bucket(STAGING).await.err()),
    ]
}

#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let world = World::new().await;
    let all = [Right::Create, Right::Get, Right::Delete, Right::Inspect];
    for missing in std::iter::once(None).chain(all.map(Some)) {
        let rights: Vec<Right> = all.into_iter().filter(|right| Some(*right) != missing).collect();
        world.grant(STAGING, &rights);
        for (call, needed, error) in refusals(&world).await {
            let permission = call.needs().unwrap();
            let expected = (Some(needed) == missing).then_some(StoreError::Forbidden { call, permission });
            assert_eq!(error, expected, "{call:?} without {missing:?}");
            if let Some(error) = error {
                assert!(error.is_about_us() && !error.is_transient());
                assert!(error.to_string().contains(permission.name()), "{error}");
            }
        }
    }
    // The source's right.
    world.grant(STAGING, &all);
    world.grant(CONTENT, &[Right::Create]);
    let generation = world.there(CONTENT, "source", "x");
    let refused = world.store.rewrite(&name(CONTENT, "source"), generation, &name(STAGING, "copied")).await;
    let expected = StoreError::Forbidden { call: Call::Rewrite, permission: Permission::Get };
    assert_eq!(refused.unwrap_err(), expected);
    // Overwriting at a completion.
    world.there(STAGING, "there", "x");
    world.grant(STAGING, &[Right::Create, Right::Get]);
    let (upload, parts) = world.begun(&name(STAGING, "there"), &[b"x"]).await;
    let refused = world.store.complete(&name(STAGING, "there"), &upload, &parts).await.unwrap_err();
    assert_eq!(refused, StoreError::Forbidden { call: Call::Complete, permission: Permission::Delete });
}

#[tokio::test]
async fn what_is_missing_may_be_hidden_from_us() {
    let world = World::new().await;
    let missing = name(STAGING, "missing");
    assert_eq!(world.store.stat(&missing).await.unwrap(), None);
    world.google.set_hides_missing(true);
    let hidden = |call: Call| {
        let permission = if call == Call::Delete { Permission::Delete } else { Permission::Get };
        StoreError::MissingOrForbidden { call, permission }
    };
    let found = world.store.stat(&missing).await.unwrap_err();
    assert!(!found.is_about_us() && !found.is_transient(), "{found}");
    assert_eq!(found, hidden(Call::Stat));
    assert_eq!(world.store.read(&missing, 1, 0).await.unwrap_err(), hidden(Call::Read));
    assert_eq!(world.store.delete(&missing, None).await.unwrap_err(), hidden(Call::Delete));
    let copy = world.store.rewrite(&missing, 1, &name(CONTENT, "copy")).await.unwrap_err();
    assert_eq!(copy, hidden(Call::Rewrite));
    // Where it cannot be settled which of the two it is, neither is said.
    world.google.rule(Rule::at(Stage::Head).call(Asked::Permissions).times(1).act(Act::Status(503)));
    let away = world.store.stat(&missing).await.unwrap_err();
    assert!(away.is_transient(), "{away}");
    world.grant(STAGING, &[Right::Create]);
    let forbidden = |call, permission| StoreError::Forbidden { call, permission };
    assert_eq!(world.store.stat(&missing).await.unwrap_err(), forbidden(Call::Stat, Permission::Get));
    let kept = world.store.delete(&missing, None).await.unwrap_err();
    assert_eq!(kept, forbidden(Call::Delete, Permission::Delete));
    world.grant(STAGING, &[Right::Create, Right::Get, Right::Delete, Right::List]);
    assert_eq!(world.store.stat(&missing).await.unwrap(), None);
    world.store.delete(&missing, None).await.unwrap();
}

#[tokio::test]
async fn we_know_what_we_may() {
    let world = World::new().await;
    let held = world.store.permissions(STAGING, &Permission::ALL).await.unwrap();
    assert!(Permission::ALL.into_iter().filter(|permission| *permission != Permission::List).eq(held));
    let held = world.store.permissions(CONTENT, &[Permission::Delete, Permission::Get]).await.unwrap();
    assert!(held.into_iter().eq([Permission::Get]));
    world.grant(CONTENT, &[]);
    assert!(world.store.permissions(CONTENT, &Permission::ALL).await.unwrap().is_empty());
    assert_eq!(world.store.permissions("nowhere", &Permission::ALL).await.unwrap_err(), StoreError::NoBucket);
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_at_the_next_call() {
    let world = World::new().await;
    world.there(STAGING, "o", "x");
    let o = name(STAGING, "o");
    world.store.stat(&o).await.unwrap();
    world.google.revoke_tokens();
    let refused = world.store.stat(&o).await.unwrap_err();
    assert!(refused == StoreError::TokenRefused && refused.is_about_us(), "{refused}");
    world.store.stat(&o).await.unwrap();
    assert_eq!(world.google.token_calls(), 2);
}
