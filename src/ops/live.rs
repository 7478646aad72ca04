//! A value that a reload may replace while others use it: each use takes what is there at that moment, whole.
//!
//! Never waits longer than it takes to copy a pointer.

use std::sync::{Arc, PoisonError, RwLock};

/// Such a value. Clones share it.
#[derive(Debug)]
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    /// The value now. Whoever needs it to be the same twice keeps what this answers.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it for everybody, from their next look on.
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
