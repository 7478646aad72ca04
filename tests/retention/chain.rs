//! Receipts: written one after the other whoever writes, never changed, and judged by a program that trusts no function of the database.

use maple_router::retention::chain::{Broken, Chain};
use maple_router::retention::store::submissions::Authority;

use crate::harness::{Scene, pool};

async fn judged(scene: &Scene) -> Result<Chain, Broken> {
    let mut chain = Chain::default();
    loop {
        let page = scene.daemon.receipts(chain.length, 7).await.expect("answered");
        if page.is_empty() {
            return Ok(chain);
        }
        page.iter().try_for_each(|receipt| chain.follow(receipt))?;
    }
}

#[tokio::test]
async fn many_writers_make_one_chain_and_nobody_changes_it() {
    let scene = Scene::new().await;
    assert_eq!(judged(&scene).await, Ok(Chain::default()));
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(scene.routed().await);
    }
    let purging = ids.chunks(10).map(|part| {
        let (store, part) = (
            maple_router::retention::store::RetentionStore::new(pool(&scene.db, "maple_gc"), "gc"),
            part.to_vec(),
        );
        tokio::spawn(async move {
            for id in part {
                store.purge(&[id], Authority::Retention, "gc", None).await.expect("emptied");
            }
        })
    });
    for done in futures::future::join_all(purging).await {
        done.expect("no panic");
    }
    assert_eq!(judged(&scene).await.expect("whole").length, 40);
    for change in [
        "UPDATE content.receipts SET body = body WHERE id = 3",
        "DELETE FROM content.receipts WHERE id = 3",
        "TRUNCATE content.receipts",
    ] {
        for role in ["maple_gc", "forms_app", "forms_loader"] {
            let client = scene.db.client_as(role).await.expect("a client");
            assert!(client.batch_execute(change).await.is_err(), "{role}: {change}");
        }
        assert!(scene.eyes.batch_execute(change).await.is_err(), "not even as superuser: {change}");
    }
    // Somebody who can take the trigger away is seen.
    let past = |change: &str| {
        format!(
            "BEGIN; ALTER TABLE content.receipts DISABLE TRIGGER guard; {change}; ALTER TABLE content.receipts ENABLE TRIGGER guard; COMMIT"
        )
    };
    scene.sql(&past("UPDATE content.receipts SET body = replace(body, 'gc', 'zz') WHERE id = 17")).await;
    assert_eq!(judged(&scene).await, Err(Broken::Digest(17)));
    scene.sql(&past("UPDATE content.receipts SET body = replace(body, 'zz', 'gc') WHERE id = 17")).await;
    assert!(judged(&scene).await.is_ok());
    scene.sql(&past("DELETE FROM content.receipts WHERE id = 9")).await;
    assert_eq!(judged(&scene).await, Err(Broken::Order(10)));
}
