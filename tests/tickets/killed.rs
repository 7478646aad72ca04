//! SIGKILL at every point around the request: each ticket exactly once, where the search works.

use std::time::Duration;

use devkit::help_desk::{Call, Rule, Stage};
use devkit::trap::Fate;
use futures::StreamExt as _;

use crate::scene::Scene;

#[tokio::test]
async fn a_router_that_dies_around_the_request_leaves_one_ticket() {
    let points = [
        (Stage::Head, Fate::Cut),
        (Stage::Body, Fate::Cut),
        (Stage::Body, Fate::Release),
        (Stage::Answer, Fate::Cut),
        (Stage::Answer, Fate::Release),
    ];
    // They mostly wait: for a claim to be stuck, and for the help desk's index.
    let played = futures::stream::iter(points).for_each_concurrent(None, async |(stage, fate)| {
        let point = format!("{stage:?}, {fate:?}");
        let mut scene = Scene::start("").await;
        let trapped = scene.desk.trap(Rule::at(stage).call(Call::Create));
        let id = scene.submit().await;
        if let Err(nobody) = trapped.hit(Duration::from_secs(60)).await {
            panic!("{point}: {nobody}\n{}", scene.log());
        }
        scene.kill().await;
        match fate {
            Fate::Release => trapped.release(),
            Fate::Cut => trapped.cut(),
        }
        scene.one_more().await;
        let row = scene.ended(id).await;
        assert_eq!(row.status, "routed", "{point}: {row:?}");
        assert_eq!(scene.desk.tagged(&Scene::tag(id)).len(), 1, "{point}: {row:?}");
        assert_eq!(scene.mails(id), 1, "{point}: {row:?}");
        scene.stop().await;
    });
    played.await;
}
