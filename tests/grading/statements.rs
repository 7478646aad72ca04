//! Every (state, command, role) of both lifecycles on the real statements.

#![expect(clippy::wildcard_enum_match_arm, reason = "what the others have in common")]

use std::time::Duration;

use maple_router::grading::job::table::{Command as JobCommand, Job, State as JobState};
use maple_router::grading::store::people::Reviewed;
use maple_router::grading::table::{ADMIN, Command, Grading, State};
use maple_router::grading::worker::CHANNEL;
use maple_router::kernel::rows::{Fence as Right, Kinds, Write};
use maple_router::kernel::{Transition, Who};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene, graded};
use crate::holds::{Fence, Real, lifecycle_holds};

const TOKEN: Uuid = Uuid::from_u128(42);
const OTHER: Uuid = Uuid::from_u128(7);

/// Every edge of a command by somebody, whatever it leads from.
fn edges(command: Command, by: Who) -> Vec<Transition<Grading>> {
    let pairs = State::ALL.iter().flat_map(|from| State::ALL.iter().map(move |to| (*from, *to)));
    pairs.filter_map(|(from, to)| Transition::leading(from, command, to, by).ok()).collect()
}

impl Real<Grading> for Scene {
    type Id = Uuid;

    async fn row(&self, state: State, command: Command, by: Who) -> Uuid {
        let attempt = self.attempt_of(self.submit("listen", &[]).await).await;
        self.put(attempt, state.label()).await;
        self.keep(attempt, "ai").await;
        if by != ADMIN {
            self.keep(attempt, "final").await;
        }
        self.sql(&format!("DELETE FROM assessment.events WHERE submission_id = '{attempt}'")).await;
        if command != Command::Claim && by != ADMIN && state == State::Pending {
            let until = if command == Command::Expire { "- interval '1 s'" } else { "+ interval '1 h'" };
            self.sql(&format!(
                "UPDATE assessment.submissions SET lease_token = '{TOKEN}', leased_until = now() {until}, attempts = 1, claims = 1
                 WHERE id = '{attempt}'"
            ))
            .await;
        }
        attempt
    }

    async fn give(&self, id: Uuid, command: Command, by: Who, fence: Fence) -> bool {
        if by == ADMIN {
            return command == Command::Reviewed && self.reviewed(id, fence).await;
        }
        // Neither the time nor a claim has a fence, and a callback has the lock.
        let fenced = by == Who::WORKER && command != Command::Claim;
        if edges(command, by).is_empty() || (fence == Fence::Stale && !fenced) {
            return false;
        }
        match command {
            Command::Claim => {
                let only = Kinds::Only(vec!["live"]);
                self.store.claim(State::Pending, &only, 1_000, PATIENCE, TOKEN).await.expect("claimed");
            }
            Command::Expire => {
                self.store.wake(1_000).await.expect("woken");
            }
            _ => {
                for transition in edges(command, by) {
                    self.go(id, transition, fence).await;
                }
            }
        }
        true
    }

    async fn state(&self, id: Uuid) -> State {
        State::parse(&self.state(id).await).expect("a state")
    }

    async fn trace(&self, id: Uuid) -> String {
        self.one(&format!(
            "SELECT concat_ws(E'\\n', (SELECT (a.state, a.version, a.lease_token, a.attempts, a.claims, a.try, a.seq, a.failed_reason)::text
               FROM assessment.submissions a WHERE a.id = '{id}'),
               (SELECT string_agg(e.trigger, ',') FROM assessment.events e WHERE e.submission_id = '{id}'))"
        ))
        .await
    }

    async fn recorded(&self, id: Uuid, done: Transition<Grading>) {
        let moves = done.from() != Some(done.to());
        let expected: Vec<String> = if moves { vec![done.command().to_string()] } else { Vec::new() };
        assert_eq!(self.triggers(id).await, expected, "one event for each transition");
        let entries = match done.to() {
            State::Failed => vec!["grading_failed odd Pending".to_owned()],
            State::ReviewPending => vec!["grading critical Pending".to_owned()],
            _ => Vec::new(),
        };
        assert_eq!(self.entries(id).await, entries, "a person is told");
        let subject =
            self.one(&format!("SELECT subject FROM assessment.submissions WHERE id = '{id}'")).await;
        let told: Vec<String> =
            (done.to() == State::Completed).then(|| "graded".to_owned()).into_iter().collect();
        assert_eq!(self.events(subject).await, told, "whoever routes hears of a grade alone");
    }
}

impl Scene {
    /// One edge, by the kernel's statement; what the row is not is nobody's fault.
    async fn go(&self, id: Uuid, transition: Transition<Grading>, fence: Fence) {
        let columns = match transition.to() {
            State::Failed => json!({"failed_reason": "odd"}),
            State::ReviewPending => json!({"priority": "Critical"}),
            _ => json!({}),
        };
        let by_worker = transition.by() == Who::WORKER;
        let token = if fence == Fence::Own { TOKEN } else { OTHER };
        let right = if by_worker { Right::Lease(token) } else { Right::Locked };
        let write = [Write { columns: Some(columns), ..Write::plain(id, right, transition) }];
        if by_worker {
            drop(self.store.settle(&write).await);
            return;
        }
        let done = self.store.pool().transaction("grading_take", async |tx| {
            self.store.hold(&tx, &[id]).await?;
            self.store.write(&tx, "test", &write).await
        });
        drop(done.await);
    }

    /// A person's review, by the function.
    async fn reviewed(&self, id: Uuid, fence: Fence) -> bool {
        let version = if fence == Fence::Own { 1 } else { 7 };
        let (human, last) = (graded(7.0, 100), graded(7.5, 100));
        let reviewed = self.desk.pool().transaction("grading_set", async |tx| {
            self.desk.review(&tx, (id, version), (&human, &last), ("reviewer:x", "because")).await
        });
        let reviewed = reviewed.await.expect("answered");
        assert!(fence == Fence::Own || reviewed == Reviewed::Stale);
        true
    }
}

#[tokio::test]
async fn every_command_of_everybody_to_an_attempt_is_as_the_table_says() {
    let scene = Scene::new().await;
    let (tried, allowed) = lifecycle_holds::<Grading>(&scene, &[Who::WORKER, Who::SYSTEM, ADMIN]).await;
    // Of the worker five commands, of callbacks and the time ten, of people one, each in eight states.
    assert_eq!((tried, allowed), (128, 21));
}

struct Jobs(Scene);

impl Real<Job> for Jobs {
    type Id = Uuid;

    async fn row(&self, state: JobState, command: JobCommand, _: Who) -> Uuid {
        let ended = if state.is_final() { "now()" } else { "NULL" };
        let (token, until) = match (state.is_final(), command) {
            (true, _) | (_, JobCommand::Claim) => ("NULL".to_owned(), "NULL"),
            (false, JobCommand::Expire) => (format!("'{TOKEN}'"), "now() - interval '1 s'"),
            (false, _) => (format!("'{TOKEN}'"), "now() + interval '1 h'"),
        };
        let sql = format!(
            "INSERT INTO grading.jobs (request_id, submission_id, attempt, skill, payload, deadline, state, ended_at, lease_token, leased_until, attempts, claims)
             VALUES (gen_random_uuid(), gen_random_uuid(), 1, 'writing', '{{}}', now() + interval '1 h', '{}', {ended}, {token}, {until}, 1, 1)
             RETURNING id",
            state.label()
        );
        self.0.one(&sql).await
    }

    async fn give(&self, id: Uuid, command: JobCommand, by: Who, fence: Fence) -> bool {
        let pairs = JobState::ALL.iter().flat_map(|from| JobState::ALL.iter().map(move |to| (*from, *to)));
        let edges: Vec<Transition<Job>> =
            pairs.filter_map(|(from, to)| Transition::leading(from, command, to, by).ok()).collect();
        let fenced = by == Who::WORKER && command != JobCommand::Claim;
        if edges.is_empty() || (fence == Fence::Stale && !fenced) {
            return false;
        }
        let store = &self.0.jobs;
        match command {
            JobCommand::Claim => {
                for state in JobState::ALL.iter().filter(|state| !state.is_final()) {
                    let only = Kinds::Only(vec!["live"]);
                    store.claim(*state, &only, 1_000, PATIENCE, TOKEN).await.expect("claimed");
                }
            }
            JobCommand::Expire => {
                store.wake(1_000).await.expect("woken");
            }
            _ => {
                let token = if fence == Fence::Own { TOKEN } else { OTHER };
                for transition in edges {
                    drop(store.settle(&[Write::plain(id, Right::Lease(token), transition)]).await);
                }
            }
        }
        true
    }

    async fn state(&self, id: Uuid) -> JobState {
        let state: String = self.0.one(&format!("SELECT state FROM grading.jobs WHERE id = '{id}'")).await;
        JobState::parse(&state).expect("a state")
    }

    async fn trace(&self, id: Uuid) -> String {
        self.0
            .one(&format!(
                "SELECT concat_ws(E'\\n', (SELECT (j.state, j.version, j.lease_token, j.attempts, j.claims, j.retries, j.seq)::text
                   FROM grading.jobs j WHERE j.id = '{id}'),
                   (SELECT string_agg(e.trigger, ',') FROM grading.events e WHERE e.job_id = '{id}'))"
            ))
            .await
    }

    async fn recorded(&self, id: Uuid, done: Transition<Job>) {
        let moves = done.from() != Some(done.to());
        let sql = format!("SELECT array_agg(trigger) FROM grading.events WHERE job_id = '{id}'");
        let found: Option<Vec<String>> = self.0.one(&sql).await;
        let expected: Vec<String> = if moves { vec![done.command().to_string()] } else { Vec::new() };
        assert_eq!(found.unwrap_or_default(), expected, "one event for each transition");
    }
}

#[tokio::test]
async fn every_command_of_everybody_to_a_job_is_as_the_table_says() {
    let jobs = Jobs(Scene::new().await);
    let (tried, allowed) = lifecycle_holds::<Job>(&jobs, &[Who::WORKER, Who::SYSTEM]).await;
    // Of the worker eight commands, of the time one, each in six states.
    assert_eq!((tried, allowed), (54, 18));
}

/// Whoever claims in vain, or takes a job without moving it, wakes nobody: graders would wake each other for ever.
#[tokio::test]
async fn a_job_that_comes_or_moves_wakes_and_a_claim_does_not() {
    let scene = Scene::new().await;
    let listener = Scene::listener(&scene.db, "maple_grader", CHANNEL);
    let woken = async |within: Duration| tokio::time::timeout(within, listener.notifications()).await.is_ok();
    let (soon, silence) = (PATIENCE, Duration::from_millis(700));
    assert!(woken(soon).await, "it listens");
    let (store, kinds) = (&scene.jobs, Kinds::Only(vec!["live"]));
    let claim =
        async || store.claim(JobState::Queued, &kinds, 10, PATIENCE, TOKEN).await.expect("claimed").len();
    assert_eq!(claim().await, 0);
    assert!(!woken(silence).await, "nothing was found");
    let request = Uuid::new_v4();
    scene
        .sql(&format!(
            "INSERT INTO grading.jobs (request_id, submission_id, attempt, skill, payload, deadline)
             VALUES ('{request}', gen_random_uuid(), 1, 'writing', '{{}}', now() + interval '1 h')"
        ))
        .await;
    assert!(woken(soon).await, "it is new");
    assert_eq!(claim().await, 1);
    assert!(!woken(silence).await, "it is where it was");
    let job: Uuid = scene.one(&format!("SELECT id FROM grading.jobs WHERE request_id = '{request}'")).await;
    let begun =
        Transition::leading(JobState::Queued, JobCommand::PickedUp, JobState::Processing, Who::WORKER)
            .expect("an edge");
    let write = Write::<Job>::plain(job, Right::Lease(TOKEN), begun);
    assert!(store.settle(&[write]).await.expect("settled").contains(&job));
    assert!(woken(soon).await, "it has moved");
}
