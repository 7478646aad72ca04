//! Every (state, command, role) of the lifecycle on the real statements.

use std::time::Duration;

use maple_router::forms::commands::By;
use maple_router::forms::table::{ADMIN, Command, PUBLISHER, State, Version};
use maple_router::kernel::rows::{Fence as Right, Write};
use maple_router::kernel::{Transition, Who};
use uuid::Uuid;

use crate::harness::{Scene, form};
use crate::holds::{Fence, Real, lifecycle_holds};

impl Real<Version> for Scene {
    type Id = Uuid;

    async fn row(&self, state: State, _: Command, _: Who) -> Uuid {
        self.sql(
            "DELETE FROM content.current; DELETE FROM content.decisions;
             ALTER TABLE content.entries DISABLE TRIGGER guard; DELETE FROM content.entries; ALTER TABLE content.entries ENABLE TRIGGER guard;
             DELETE FROM content.versions",
        )
        .await;
        let id = match state {
            State::Draft => self.draft(&form("f", "one")).await.id,
            State::Published => self.published(&form("f", "one")).await.id,
            State::Tombstoned => {
                let id = self.published(&form("f", "one")).await.id;
                let day = Duration::from_secs(86_400);
                let zoe = crate::harness::zoe();
                self.publisher.bury(id, Command::Tombstone, "r", day, &zoe).await.expect("out of use");
                id
            }
        };
        self.sql("DELETE FROM content.decisions; DELETE FROM router.transitions WHERE lifecycle = 'version'; DELETE FROM audit_log")
            .await;
        id
    }

    async fn give(&self, id: Uuid, command: Command, by: Who, fence: Fence) -> bool {
        let versions = if by == PUBLISHER { &self.publisher } else { &self.desk };
        let by = By { who: by, name: "somebody".to_owned() };
        let digest = self.facts(id).await.digest;
        let own = fence == Fence::Own;
        match command {
            // The collector forgets, by the schema's own function (tests/retention).
            Command::Load | Command::Forget => return false,
            // What was reviewed is the fence.
            Command::Publish => {
                let expect = if own { digest } else { "ab".repeat(32) };
                drop(versions.publish(id, &expect, &by).await);
            }
            // What was seen as current is the fence.
            Command::Promote => {
                let expected = (!own).then(|| Uuid::from_u128(1));
                drop(versions.promote(id, expected, None, &by).await);
            }
            // A worker's token never writes a version: they have no leases.
            Command::Discard | Command::Tombstone | Command::Restore if !own => {
                for from in State::ALL {
                    let Ok(transition) = Transition::<Version>::of(*from, command, PUBLISHER) else {
                        continue;
                    };
                    let write = Write::plain(id, Right::Lease(Uuid::nil()), transition);
                    drop(self.publisher.store.settle(&[write]).await);
                }
            }
            Command::Discard | Command::Tombstone => {
                drop(versions.bury(id, command, "r", Duration::from_secs(86_400), &by).await);
            }
            Command::Restore => drop(versions.restore(id, &by).await),
        }
        true
    }

    async fn state(&self, id: Uuid) -> State {
        self.row(id).await.state
    }

    async fn trace(&self, id: Uuid) -> String {
        self.one(&format!(
            "SELECT concat_ws(E'\\n', (SELECT v::text FROM content.versions v WHERE v.id = '{id}'),
               (SELECT string_agg(c::text, ',') FROM content.current c), (SELECT string_agg(d.command || d.allowed, ',') FROM content.decisions d),
               (SELECT string_agg(t.command, ',') FROM router.transitions t WHERE t.lifecycle = 'version'),
               (SELECT count(*) FROM audit_log))"
        ))
        .await
    }

    async fn recorded(&self, id: Uuid, done: Transition<Version>) {
        let history = self.publisher.store.history(id).await.expect("answered");
        let [record] = history.as_slice() else { panic!("one record: {history:?}") };
        let expected = (
            done.from().map(|from| from.to_string()).unwrap_or_default(),
            done.to().to_string(),
            done.command().to_string(),
            done.by().label().to_owned(),
        );
        let found =
            (record.from.clone(), record.to.clone(), record.command.clone(), record.actor_type.clone());
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn every_command_of_everybody_in_every_state_is_as_the_table_says() {
    let scene = Scene::new().await;
    let (tried, allowed) =
        lifecycle_holds::<Version>(&scene, &[PUBLISHER, ADMIN, Who::OPERATOR, Who::SYSTEM]).await;
    // Five commands in three states by four roles; six edges of the publisher's and the admin's promotion.
    assert_eq!((tried, allowed), (60, 6));
}
