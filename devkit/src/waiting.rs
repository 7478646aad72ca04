//! Waiting for what other processes bring about: it is looked for again and again, because nobody tells of it.

use std::time::Duration;

/// Returns what a look finds at last, `step` between two looks; `None` where nothing was found in `patience`. The
/// time of the looks themselves does not count: on a busy machine they take the longest.
pub async fn find<T>(
    patience: Duration,
    step: Duration,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Option<T> {
    for _ in 0..patience.as_millis() / step.as_millis() {
        let found = look().await;
        if found.is_some() {
            return found;
        }
        tokio::time::sleep(step).await;
    }
    None
}

/// Returns whether it is so at last.
pub async fn until(patience: Duration, step: Duration, so: impl AsyncFn() -> bool) -> bool {
    find(patience, step, async || so().await.then_some(())).await.is_some()
}
