//! Group commit: what many submissions have to write at the same moment shares a transaction, because the database pays per
//! commit.
//!
//! While one transaction is under way, new requests wait for the next, which takes all of them: a lone request never waits,
//! and the more there is to do, the more is done at once. No submission depends on another's: a row that another transaction
//! has locked, or that makes its transaction fail, is written alone; a slow transaction delays only its own requests:
//! another one starts beside it.
//!
//! If we die before the commit, nothing of the batch was written; each submission is then where it was. What never happens
//! here: two requests for one row in one transaction, a wait for a row while others wait behind it.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::db::{DbError, DbErrorKind};

/// Requests in one transaction, at most.
const TOGETHER: usize = 64;
/// Transactions at once, at most: each has a connection.
const BESIDE: usize = 3;
/// A transaction that takes longer delays the requests in it, and no others.
const PATIENCE: Duration = Duration::from_millis(500);

/// A write to one submission.
pub(super) trait OfOne: Send + Sync + 'static {
    /// The submission.
    fn id(&self) -> Uuid;
}

/// Which rows a transaction writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// Rows that no other transaction has locked.
    Free,
    /// Every row, however long it is locked.
    Awaited,
}

/// One answer for each request, in order; none for a row that was not free.
pub(super) type Answers<Answer> = Vec<Option<Answer>>;

struct Waiting<Request, Answer> {
    request: Arc<Request>,
    tell: oneshot::Sender<Result<Option<Answer>, DbError>>,
}

struct Queue<Request, Answer> {
    waiting: VecDeque<Waiting<Request, Answer>>,
    /// Transactions under way; a server looks here again after its own.
    serving: usize,
    /// Transactions under way that take longer than [`PATIENCE`]: new requests do not wait for them.
    late: usize,
}

impl<Request, Answer> Queue<Request, Answer> {
    /// Counts the caller in as a server where requests wait and no other server runs, or only late ones.
    fn take_up(&mut self) -> bool {
        let serves = !self.waiting.is_empty() && self.serving == self.late && self.serving < BESIDE;
        self.serving += usize::from(serves);
        serves
    }
}

/// Requests of one kind. Cheap to clone.
pub(super) struct Group<Request, Answer> {
    queue: Arc<Mutex<Queue<Request, Answer>>>,
}

impl<Request, Answer> Clone for Group<Request, Answer> {
    fn clone(&self) -> Self {
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl<Request, Answer> Default for Group<Request, Answer> {
    fn default() -> Self {
        Self { queue: Arc::new(Mutex::new(Queue { waiting: VecDeque::new(), serving: 0, late: 0 })) }
    }
}

impl<Request, Answer> std::fmt::Debug for Group<Request, Answer> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

impl<Request: OfOne, Answer: Send + 'static> Group<Request, Answer> {
    /// Carries out `request`, together with others or alone. `commit` is one transaction for some requests; it may run again
    /// for the same request, which is repeated as it is.
    ///
    /// # Errors
    /// The errors of `commit`.
    pub(super) async fn share<Commit, Committing>(
        &self,
        request: Request,
        commit: Commit,
    ) -> Result<Answer, DbError>
    where
        Commit: Fn(Vec<Arc<Request>>, Rows) -> Committing + Clone + Send + Sync + 'static,
        Committing: Future<Output = Result<Answers<Answer>, DbError>> + Send + 'static,
    {
        let request = Arc::new(request);
        match self.together(&request, &commit).await {
            Some(answer) => answer,
            None => {
                // On the heap, because it is seldom: a request that shares a transaction does not carry this future about.
                let answers = Box::pin(commit(vec![request], Rows::Awaited)).await?;
                answers
                    .into_iter()
                    .next()
                    .flatten()
                    .ok_or_else(|| DbError::Shape("a transaction for one row answered for none".to_owned()))
            }
        }
    }

    /// Carries out `request` together with others; `None`: it has to be written alone.
    async fn together<Commit, Committing>(
        &self,
        request: &Arc<Request>,
        commit: &Commit,
    ) -> Option<Result<Answer, DbError>>
    where
        Commit: Fn(Vec<Arc<Request>>, Rows) -> Committing + Clone + Send + Sync + 'static,
        Committing: Future<Output = Result<Answers<Answer>, DbError>> + Send + 'static,
    {
        let (tell, answer) = oneshot::channel();
        let serves = {
            let mut queue = self.queue();
            queue.waiting.push_back(Waiting { request: Arc::clone(request), tell });
            queue.take_up()
        };
        if serves {
            // A task of its own: the request that starts it may be dropped, and others wait.
            tokio::spawn(self.clone().serve(commit.clone()));
        }
        match answer.await {
            Ok(answer) => answer.transpose(),
            // The server is gone, which only a panic or the end of the runtime does.
            Err(_) => None,
        }
    }

    /// Runs one transaction after another until no request waits, or another server runs.
    async fn serve<Commit, Committing>(self, commit: Commit)
    where
        Commit: Fn(Vec<Arc<Request>>, Rows) -> Committing + Clone + Send + Sync + 'static,
        Committing: Future<Output = Result<Answers<Answer>, DbError>> + Send + 'static,
    {
        let mut serving = Serving { group: &self, late: false, ended: false };
        while let Some(batch) = serving.next() {
            let requests = batch.iter().map(|waiting| Arc::clone(&waiting.request)).collect();
            let mut committing = Box::pin(commit(requests, Rows::Free));
            let answers = match tokio::time::timeout(PATIENCE, &mut committing).await {
                Ok(answers) => answers,
                Err(_) => {
                    if serving.is_late() {
                        tokio::spawn(self.clone().begin_serving(commit.clone()));
                    }
                    committing.await
                }
            };
            let answers = match answers {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                // One of the requests is to blame, or all: each is written alone, and answered.
                Err(error) if batch.len() > 1 && error.kind() != DbErrorKind::Unreachable => Vec::new(),
                Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
            };
            let mut answers = answers.into_iter();
            for waiting in batch {
                // A request that was dropped receives nothing.
                drop(waiting.tell.send(answers.next().unwrap_or(Ok(None))));
            }
        }
    }

    /// [`Self::serve`] with a type that can be named: a late server starts another one.
    fn begin_serving<Commit, Committing>(self, commit: Commit) -> BoxFuture<'static, ()>
    where
        Commit: Fn(Vec<Arc<Request>>, Rows) -> Committing + Clone + Send + Sync + 'static,
        Committing: Future<Output = Result<Answers<Answer>, DbError>> + Send + 'static,
    {
        self.serve(commit).boxed()
    }

    /// Takes the next transaction's requests from those that wait.
    fn next(queue: &mut Queue<Request, Answer>) -> Vec<Waiting<Request, Answer>> {
        let mut seen = HashSet::new();
        let (mut batch, mut later) = (Vec::new(), VecDeque::new());
        while batch.len() < TOGETHER
            && let Some(waiting) = queue.waiting.pop_front()
        {
            // A worker that lost its claim and the one that has it now may both write a row: an UPDATE writes it once.
            if seen.insert(waiting.request.id()) {
                batch.push(waiting);
            } else {
                later.push_back(waiting);
            }
        }
        later.append(&mut queue.waiting);
        queue.waiting = later;
        batch
    }
}

impl<Request, Answer> Group<Request, Answer> {
    fn queue(&self) -> MutexGuard<'_, Queue<Request, Answer>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server; should it end in the middle, the waiting requests are answered, or another server takes them.
struct Serving<'a, Request, Answer> {
    group: &'a Group<Request, Answer>,
    /// This server's transaction is counted in [`Queue::late`].
    late: bool,
    ended: bool,
}

impl<Request: OfOne, Answer: Send + 'static> Serving<'_, Request, Answer> {
    /// The next transaction's requests; none where no request waits, or another server runs meanwhile.
    fn next(&mut self) -> Option<Vec<Waiting<Request, Answer>>> {
        let mut queue = self.group.queue();
        queue.late -= usize::from(std::mem::take(&mut self.late));
        let is_alone = queue.serving - queue.late == 1;
        let batch = if is_alone { Group::next(&mut queue) } else { Vec::new() };
        // Under the same lock, so that the next request starts a server.
        self.ended = batch.is_empty();
        queue.serving -= usize::from(self.ended);
        Some(batch).filter(|batch| !batch.is_empty())
    }

    /// Marks this server as late; returns whether another one is to serve.
    fn is_late(&mut self) -> bool {
        self.late = true;
        let mut queue = self.group.queue();
        queue.late += 1;
        queue.take_up()
    }
}

impl<Request, Answer> Drop for Serving<'_, Request, Answer> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut queue = self.group.queue();
        queue.serving -= 1;
        queue.late -= usize::from(self.late);
        if queue.serving == queue.late {
            queue.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[derive(Debug)]
    struct One(Uuid);

    impl OfOne for One {
        fn id(&self) -> Uuid {
            self.0
        }
    }

    fn some(n: u128) -> One {
        One(Uuid::from_u128(n))
    }

    /// A slow transaction that panics where the first row shares it with others, or is not yet alone.
    async fn commit(all: Vec<Arc<One>>, rows: Rows) -> Result<Answers<(usize, Rows)>, DbError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(rows == Rows::Awaited || all.iter().all(|one| one.0 != Uuid::nil()), "a fault of ours");
        Ok(vec![Some((all.len(), rows)); all.len()])
    }

    /// Requests behind a transaction that ended in the middle are not forgotten, and neither are later ones.
    #[tokio::test]
    async fn a_transaction_that_ends_in_the_middle_takes_nobody_with_it() {
        let group = Group::default();
        let answers = futures::future::join_all((0..5).map(|n| group.share(some(n), commit)));
        let answers = tokio::time::timeout(Duration::from_secs(20), answers).await.expect("all are answered");
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("written")).collect();
        assert_eq!(answers, [(1, Rows::Awaited); 5], "each alone");
        let after = futures::future::join_all((1..4).map(|n| group.share(some(n), commit)));
        let after = tokio::time::timeout(Duration::from_secs(20), after).await.expect("served again");
        assert!(after.into_iter().all(|answer| matches!(answer, Ok((_, Rows::Free)))), "together again");
    }

    /// A transaction that gets no answer delays the requests in it; later requests do not wait behind it, and share
    /// transactions again.
    #[tokio::test(start_paused = true)]
    async fn one_transaction_that_hangs_holds_up_nobody_else() {
        let hung = Arc::new(tokio::sync::Semaphore::new(0));
        let hanging = Arc::clone(&hung);
        let commit = move |all: Vec<Arc<One>>, rows: Rows| {
            let hung = Arc::clone(&hanging);
            async move {
                if all.iter().any(|one| one.0 == Uuid::nil()) {
                    drop(hung.acquire().await);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(vec![Some((all.len(), rows)); all.len()])
            }
        };
        let group = Group::default();
        let first = tokio::spawn({
            let (group, commit) = (group.clone(), commit.clone());
            async move { group.share(some(0), commit).await }
        });
        tokio::task::yield_now().await;
        let others = futures::future::join_all((1..6).map(|n| group.share(some(n), commit.clone())));
        let others = tokio::time::timeout(Duration::from_secs(5), others).await.expect("answered meanwhile");
        assert!(others.into_iter().all(|answer| matches!(answer, Ok((5, Rows::Free)))), "together");
        let late = tokio::time::timeout(Duration::from_secs(5), group.share(some(6), commit.clone()));
        assert!(matches!(late.await, Ok(Ok((1, Rows::Free)))), "and later ones at once");
        assert!(!first.is_finished());
        hung.add_permits(1);
        assert!(matches!(first.await, Ok(Ok((1, Rows::Free)))));
        assert!(matches!(group.share(some(7), commit).await, Ok((1, Rows::Free))), "served as before");
    }

    /// A transaction that answers fewer requests than it was given: the others are written alone, and one that answers none
    /// at all is an error, not silence.
    #[tokio::test]
    async fn nobody_goes_without_an_answer() {
        let short = async |all: Vec<Arc<One>>, rows: Rows| {
            let answers = if rows == Rows::Awaited { all.len() } else { 0 };
            Ok(vec![Some(rows); answers])
        };
        let commit = move |all, rows| Box::pin(short(all, rows)) as futures::future::BoxFuture<'static, _>;
        assert!(matches!(Group::default().share(some(1), commit).await, Ok(Rows::Awaited)));
        let none = |_: Vec<Arc<One>>, _| async { Ok(Answers::<()>::new()) };
        let said = Group::default().share(some(1), none).await.expect_err("no answer");
        assert!(matches!(said, DbError::Shape(_)), "{said}");
    }
}
