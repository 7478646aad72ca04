//! A value that a reload may replace while others use it: each use gets the whole value of that moment.
//!
//! Never waits longer than for the copy of a pointer.

use std::sync::{Arc, PoisonError, RwLock};

/// A replaceable value. Clones share it.
#[derive(Debug)]
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    /// Returns the current value. A caller that needs the same value twice keeps the result.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the value for all clones, from their next [`Self::get`] on.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> From<T> for Live<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(value))))
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_value_and_a_look_stays_what_it_was() {
        let live = Live::from(1);
        let (other, before) = (live.clone(), live.get());
        other.set(2);
        assert_eq!((*before, *live.get()), (1, 2));
    }
}
