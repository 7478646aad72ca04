//! Locks of what connections share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after somebody's panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
