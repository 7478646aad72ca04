//! Tasks: work beside the routing, each with a name and a stop of its own.
//!
//! A task that panics is logged by name and stays ended, since the state it left is not known here; a task that can be
//! started anew is spawned by [`Task::again`]. If we die, nothing is owed.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Pause before a task that panicked is started anew.
const REST: Duration = Duration::from_secs(5);

/// One task. Dropping it aborts the work: only for work that keeps nothing.
#[derive(Debug)]
#[must_use = "dropping it ends it"]
pub struct Task {
    name: &'static str,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Task {
    /// Runs `work` until it ends. The work receives its stop, and ends soon after that is cancelled, or ignores it if an
    /// abort does no harm. Must be called inside a tokio runtime.
    pub fn spawn<Work>(name: &'static str, work: impl FnOnce(CancellationToken) -> Work) -> Self
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let work = AssertUnwindSafe(work(stop.clone())).catch_unwind();
        let running = tokio::spawn(async move {
            if work.await.is_err() {
                tracing::error!(task = name, "{name} has panicked: it is not done any more until a restart");
            }
        });
        Self { name, stop, running }
    }

    /// Runs what `work` makes, and starts it anew after a panic, with a pause.
    pub fn again<Work>(
        name: &'static str,
        mut work: impl FnMut(CancellationToken) -> Work + Send + 'static,
    ) -> Self
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let running = tokio::spawn(async move {
            while !stopping.is_cancelled()
                && AssertUnwindSafe(work(stopping.clone())).catch_unwind().await.is_err()
            {
                tracing::error!(task = name, "{name} has panicked: it is begun anew");
                stopping.run_until_cancelled(tokio::time::sleep(REST)).await;
            }
        });
        Self { name, stop, running }
    }

    /// Asks the task to end, and aborts it after `last_words`.
    pub async fn stop(mut self, last_words: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(last_words, &mut self.running).await.is_err() {
            tracing::warn!(
                task = self.name,
                "{} did not end in time: it is ended where it stands",
                self.name
            );
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop.cancel();
        self.running.abort();
    }
}

/// Several tasks that are stopped together, or aborted when this is dropped.
#[derive(Debug, Default)]
pub struct Tasks(Vec<Task>);

impl Tasks {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// [`Task::spawn`].
    pub fn spawn<Work>(&mut self, name: &'static str, work: impl FnOnce(CancellationToken) -> Work)
    where
        Work: Future<Output = ()> + Send + 'static,
    {
        self.0.push(Task::spawn(name, work));
    }

    /// Adds a task.
    pub fn push(&mut self, task: Task) {
        self.0.push(task);
    }

    /// [`Task::stop`], one after the other, in the order in which they were added.
    pub async fn stop(self, last_words: Duration) {
        for task in self.0 {
            task.stop(last_words).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_is_asked_then_ended_and_a_panic_costs_nobody_else() {
        let ended = Arc::new(AtomicU32::new(0));
        let count = |ended: &Arc<AtomicU32>| {
            let ended = Arc::clone(ended);
            move || ended.fetch_add(1, Ordering::SeqCst)
        };
        let (polite, deaf) = (count(&ended), count(&ended));
        let mut tasks = Tasks::new();
        tasks.spawn("polite", |stop| async move {
            stop.cancelled().await;
            polite();
        });
        tasks.spawn("a bug", |_| async { panic!("a bug") });
        tasks.spawn("deaf", |_| async move {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            deaf();
        });
        tokio::time::timeout(Duration::from_secs(60), tasks.stop(Duration::from_secs(1)))
            .await
            .expect("stopped");
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_be_begun_anew_is() {
        let lives = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&lives);
        let task = Task::again("shaky", move |stop| {
            let life = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(life >= 2, "a bug");
                stop.cancelled().await;
            }
        });
        tokio::time::sleep(Duration::from_secs(60)).await;
        task.stop(Duration::from_secs(1)).await;
        assert_eq!(lives.load(Ordering::SeqCst), 3);
    }
}
