//! Every (state, command, role) of the lifecycle on the real statements: the room's commands, the kernel's jobs and timers.

use std::time::Duration;

use maple_router::kernel::rows::{Fence, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use maple_router::uploads::commands::{Asked, By, THE_BACKEND, THE_CLIENT, abort};
use maple_router::uploads::store::Seen;
use maple_router::uploads::table::{BACKEND, CLIENT, Command, State, Upload};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{STAGING, Scene, sha256, text};
use crate::holds::{Fence as Given, Real, lifecycle_holds};

const LENGTH: usize = 20;

impl Scene {
    async fn seen(&self, id: Uuid) -> Seen {
        self.commands.store.get(id).await.expect("answered").expect("there")
    }

    async fn sql(&self, sql: &str) {
        self.eyes.batch_execute(sql).await.expect(sql);
    }

    /// Ends a leased job as a worker that believes the row in any state.
    async fn settle(&self, id: Uuid, token: Uuid, command: Command) {
        let columns = match command {
            Command::Abort => Some(json!({"problem": {"type": "t"}})),
            Command::Commit => Some(json!({"found": {
                "sha256": sha256(&text(LENGTH)), "length": LENGTH, "crc32c": 1, "generation": 1, "verdict": "clean"}})),
            Command::Create
            | Command::StartParts
            | Command::FastPathDedupe
            | Command::IssueUrls
            | Command::CompleteParts
            | Command::Claim
            | Command::Retry
            | Command::Expire => None,
        };
        for from in State::ALL {
            let Ok(transition) = Transition::<Upload>::of(*from, command, Who::WORKER) else { continue };
            let write =
                Write { columns: columns.clone(), ..Write::plain(id, Fence::Lease(token), transition) };
            self.commands.store.settle(&[write]).await.expect("answered");
        }
    }
}

impl Real<Upload> for Scene {
    type Id = Uuid;

    async fn row(&self, state: State, command: Command, by: Who) -> Uuid {
        self.sql("DELETE FROM content.blob_refs; DELETE FROM content.uploads; DELETE FROM content.blobs; DELETE FROM content.staging")
            .await;
        let content = text(LENGTH);
        let session = self.session(&content, json!({})).await;
        let id = session.id;
        let parts = [State::PartsUploading, State::PendingCommit, State::Committed];
        if parts.contains(&state) {
            self.send(&session, &[1], &content).await;
        }
        if matches!(state, State::PendingCommit | State::Committed) {
            self.complete(&session, &content).await;
            self.sql(&format!("INSERT INTO content.staging (bucket, object, upload_id, role) VALUES ('c', '{id}', '{id}', 'blob')")).await;
        }
        match state {
            State::Committed => {
                let found = format!(
                    r#"{{"sha256": "{}", "length": {LENGTH}, "crc32c": 1, "generation": 1, "verdict": "clean"}}"#,
                    sha256(&content)
                );
                self.sql(&format!(
                    "UPDATE content.uploads SET state = 'committed', found = '{found}' WHERE id = '{id}'"
                ))
                .await;
            }
            State::Aborted => {
                self.sql(&format!("UPDATE content.uploads SET state = 'aborted' WHERE id = '{id}'")).await;
            }
            State::PendingCommit
                if by == Who::WORKER && command != Command::Claim || command == Command::Expire =>
            {
                let until = if command == Command::Expire {
                    "now() - interval '1 s'"
                } else {
                    "now() + interval '1 h'"
                };
                let sql = format!(
                    "UPDATE content.uploads SET attempts = 1, claims = 1, lease_token = '{}', leased_until = {until}",
                    Uuid::nil()
                );
                self.sql(&sql).await;
            }
            State::Initiated | State::PartsUploading | State::PendingCommit => {}
        }
        if command == Command::Abort && by == Who::SYSTEM && !state.is_ended() {
            self.sql("UPDATE content.uploads SET expires_at = now() - interval '1 s'").await;
        }
        self.sql("DELETE FROM router.transitions WHERE lifecycle = 'upload'").await;
        id
    }

    async fn give(&self, id: Uuid, command: Command, by: Who, fence: Given) -> bool {
        let own = fence == Given::Own;
        let seen = self.seen(id).await;
        match (command, by) {
            (Command::Commit | Command::Retry | Command::Abort, Who::WORKER) => {
                self.settle(id, if own { Uuid::nil() } else { Uuid::from_u128(1) }, command).await;
            }
            (Command::Claim, Who::WORKER) if own => {
                let (kinds, lease) = (Kinds::AllBut(Vec::new()), Duration::from_secs(60));
                let store = &self.commands.store;
                store
                    .claim(State::PendingCommit, &kinds, 10, lease, Uuid::from_u128(2))
                    .await
                    .expect("answered");
            }
            (Command::Expire | Command::Abort, Who::SYSTEM) if own => {
                self.commands.store.wake(10).await.expect("answered");
            }
            (Command::StartParts | Command::IssueUrls, CLIENT) if own => {
                // One request gives both commands, one after the other: only what the row's state makes of it counts here.
                if command == Command::StartParts || seen.row.state != State::Initiated {
                    drop(self.commands.parts(seen, &[Asked { number: 1, md5: None }]).await);
                }
            }
            (Command::CompleteParts, CLIENT) if own => {
                drop(self.commands.complete(seen, Some(&sha256(&text(LENGTH)))).await);
            }
            (Command::Abort, CLIENT) if own => {
                drop(abort(&self.commands.store, &seen, THE_CLIENT, None).await);
            }
            (Command::Abort, BACKEND) if own => {
                drop(abort(&self.commands.store, &seen, THE_BACKEND, None).await);
            }
            (Command::Abort, Who::OPERATOR) if own => {
                let by = By { who: Who::OPERATOR, name: "operator:test" };
                drop(abort(&self.commands.store, &seen, by, Some("r")).await);
            }
            // A session's birth is its INSERT, and its fast path is in that transaction.
            _ => return false,
        }
        true
    }

    async fn state(&self, id: Uuid) -> State {
        self.seen(id).await.row.state
    }

    async fn trace(&self, id: Uuid) -> String {
        let row: String =
            self.one(&format!("SELECT to_jsonb(u)::text FROM content.uploads u WHERE id = '{id}'")).await;
        let staged: String = self
            .one("SELECT COALESCE(jsonb_agg(to_jsonb(s) ORDER BY s.role), '[]')::text FROM content.staging s")
            .await;
        format!("{row} {staged} {:?}", self.commands.store.history(id).await.expect("answered"))
    }

    async fn recorded(&self, id: Uuid, done: Transition<Upload>) {
        let history = self.commands.store.history(id).await.expect("answered");
        let moved = history
            .iter()
            .map(|moved| [&moved.from, &moved.to, &moved.command, &moved.actor_type].map(String::as_str));
        let from = done.from().expect("a state");
        // What leads back to its own state is a lease's, or a link's: it is not recorded.
        let expected: Vec<[&str; 4]> = if from == done.to() {
            Vec::new()
        } else {
            vec![[from.label(), done.to().label(), done.command().label(), done.by().label()]]
        };
        assert_eq!(moved.collect::<Vec<_>>(), expected, "{done:?}");
        let due: i64 = self.one("SELECT count(*) FROM content.staging WHERE due_at IS NOT NULL").await;
        assert_eq!(due > 0, done.to().is_ended(), "{done:?}: its objects are due when it has ended");
    }
}

#[tokio::test]
async fn what_the_table_allows_happens_and_nothing_else() {
    let scene = Scene::new().await;
    let who = [Who::WORKER, Who::SYSTEM, Who::OPERATOR, CLIENT, BACKEND];
    let (tried, allowed) = lifecycle_holds::<Upload>(&scene, &who).await;
    // Twelve pairs of command and role have a statement from every state, but for links of a session that has none yet.
    assert_eq!((tried, allowed), (12 * State::ALL.len(), 20));
    assert!(scene.google.objects(STAGING).is_empty(), "nobody has assembled anything");
}
