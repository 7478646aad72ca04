//! Forms share what is worked on: one that is flooded holds up no other.

use std::collections::BTreeMap;

use maple_router::kernel::rows::Kinds;
use maple_router::screening::table::State;
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene};

impl Scene {
    /// Claims so many runs that have not begun; returns how many of each form.
    async fn begin(&self, most: usize) -> BTreeMap<String, usize> {
        let only = Kinds::Only(vec!["live"]);
        let rows = self.store.claim(State::Received, &only, most, PATIENCE, Uuid::new_v4()).await;
        rows.expect("claimed").into_iter().fold(BTreeMap::new(), |mut forms, row| {
            *forms.entry(row.columns.form_id).or_default() += 1;
            forms
        })
    }
}

fn forms<const N: usize>(counts: [(&str, usize); N]) -> BTreeMap<String, usize> {
    counts.into_iter().map(|(form, count)| (form.to_owned(), count)).collect()
}

#[tokio::test]
async fn a_form_that_is_flooded_leaves_the_others_their_turn() {
    let scene = Scene::new().await;
    for number in 0..30 {
        scene.submit("on", &format!("offer {number}")).await;
    }
    for number in 0..3 {
        scene.submit("shadow", &format!("question {number}")).await;
    }
    assert_eq!(scene.begin(8).await, forms([("on", 5), ("shadow", 3)]), "whoever came last waits for nobody");
    for number in 3..7 {
        scene.submit("shadow", &format!("question {number}")).await;
    }
    // Five of one and three of the other are leased: whoever has fewer comes first, on whatever host.
    assert_eq!(scene.begin(4).await, forms([("on", 1), ("shadow", 3)]));
    assert_eq!(scene.begin(8).await, forms([("on", 7), ("shadow", 1)]), "nothing is left idle");
}

#[tokio::test]
async fn a_form_that_is_alone_has_everything() {
    let scene = Scene::new().await;
    for number in 0..9 {
        scene.submit("on", &format!("offer {number}")).await;
    }
    assert_eq!(scene.begin(8).await, forms([("on", 8)]));
    assert_eq!(scene.begin(8).await, forms([("on", 1)]));
    assert_eq!(scene.begin(8).await, forms([]));
}

#[tokio::test]
async fn what_is_not_due_yet_hides_nobody() {
    let scene = Scene::new().await;
    let only = Kinds::Only(vec!["live"]);
    let waits = async || scene.store.waits(State::Received, &only).await.expect("asked");
    for number in 0..3 {
        scene.submit("on", &format!("offer {number}")).await;
    }
    scene.sql("UPDATE screening.submissions SET available_at = now() + interval '1 hour'").await;
    assert!(!waits().await);
    scene.submit("shadow", "a question").await;
    assert!(waits().await);
    assert_eq!(scene.begin(8).await, forms([("shadow", 1)]));
    assert!(!waits().await);
}
