//! Every (state, command, role) of a blob's lifecycle on the real statements.

use maple_router::kernel::rows::{Fence as Right, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::retention::table::{Blob, COLLECTOR, Command, State};
use uuid::Uuid;

use crate::harness::Scene;
use crate::holds::{Fence, Real, lifecycle_holds};

impl Real<Blob> for Scene {
    type Id = Uuid;

    async fn row(&self, state: State, command: Command, _: Who) -> Uuid {
        let id = self.received().await;
        let object = format!("o{id}");
        let blob = self.attach(id, &object).await;
        self.sql("UPDATE content.gc_runs SET state = 'done', ended_at = now() WHERE ended_at IS NULL").await;
        let former: i64 = self.one("INSERT INTO content.gc_runs (actor, lease_token, leased_until, state, ended_at) VALUES ('x', gen_random_uuid(), now(), 'done', now()) RETURNING id").await;
        let run: i64 = self.one("INSERT INTO content.gc_runs (actor, lease_token, leased_until, state) VALUES ('x', gen_random_uuid(), now() + interval '1 h', 'sweeping') RETURNING id").await;
        // A command that asks for no reference, or for one.
        let marked = if command == Command::Mark { former } else { run };
        if state != State::Live {
            self.sql(&format!("DELETE FROM attachments WHERE submission_id = '{id}'; UPDATE content.blobs SET deadline = now() - interval '1 s' WHERE id = '{blob}'")).await;
        }
        if matches!(state, State::Eligible | State::Deleted) {
            self.sql(&format!("UPDATE content.blobs SET state = 'eligible_for_gc', marked_run = {marked} WHERE id = '{blob}'")).await;
        }
        if state == State::Deleted {
            self.sql(&format!("UPDATE content.blobs SET marked_run = {run} WHERE id = '{blob}'; UPDATE content.blobs SET state = 'deleted' WHERE id = '{blob}'")).await;
        }
        self.sql("DELETE FROM router.transitions WHERE lifecycle = 'blob'").await;
        blob
    }

    async fn give(&self, id: Uuid, command: Command, by: Who, fence: Fence) -> bool {
        // The schema itself is the system: its triggers are no statement that somebody gives.
        if by == Who::SYSTEM {
            return false;
        }
        for (from, to) in State::ALL.iter().flat_map(|from| State::ALL.iter().map(move |to| (*from, *to))) {
            let Ok(transition) = Transition::<Blob>::leading(from, command, to, by) else { continue };
            let run: i64 = self.one("SELECT max(id) FROM content.gc_runs").await;
            // The lock of its transaction is the fence; a worker's token never writes a blob, they have no leases.
            let right = if fence == Fence::Own { Right::Locked } else { Right::Lease(Uuid::nil()) };
            let columns = (to == State::Eligible).then(|| serde_json::json!({"marked_run": run}));
            let write = Write { columns, ..Write::plain(id, right, transition) };
            let done = self.store.pool().transaction("gc_mark", async |tx| {
                self.store.hold(&tx, &[id]).await?;
                self.store.write(&tx, "gc", std::slice::from_ref(&write)).await
            });
            drop(done.await);
        }
        true
    }

    async fn state(&self, id: Uuid) -> State {
        State::parse(&self.state(id).await).expect("a state")
    }

    async fn trace(&self, id: Uuid) -> String {
        self.one(&format!(
            "SELECT concat_ws(E'\\n', (SELECT (b.state, b.deadline, b.marked_run)::text FROM content.blobs b WHERE b.id = '{id}'),
               (SELECT string_agg(t.command, ',') FROM router.transitions t WHERE t.lifecycle = 'blob'))"
        ))
        .await
    }

    async fn recorded(&self, id: Uuid, done: Transition<Blob>) {
        let expected = (done.to().to_string(), done.command().to_string(), done.by().label().to_owned());
        let stays = done.from() == Some(done.to());
        let history = self.history(id).await;
        if stays {
            assert!(history.is_empty(), "a mark that is made anew is no news: {history:?}");
        } else {
            assert_eq!(history, [expected]);
        }
    }
}

#[tokio::test]
async fn every_command_of_everybody_in_every_state_is_as_the_table_says() {
    let scene = Scene::new().await;
    let (tried, allowed) =
        lifecycle_holds::<Blob>(&scene, &[COLLECTOR, Who::OPERATOR, Who::WORKER, Who::SYSTEM]).await;
    // Five commands in four states by three roles; of the collector retention_elapsed, gc_mark, gc_sweep, of the operator two undeletes.
    assert_eq!((tried, allowed), (60, 5));
}
