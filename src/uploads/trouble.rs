//! A store that does not do what it is asked: one incident, raised when it lasts, and ended by the next thing that works.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::card::STORE;
use crate::gateway::objects::store::StoreError;
use crate::ops::incident::{Incident, Incidents};
use crate::ports::Clock;

/// Time after which a store that answers nothing is told of. What a person has to mend is told at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is seen of the store. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub struct StoreTrouble {
    since: Arc<Mutex<Option<Instant>>>,
    incidents: Incidents,
    clock: Arc<dyn Clock>,
}

impl StoreTrouble {
    /// Nothing is wrong yet.
    #[must_use]
    pub fn new(incidents: Incidents, clock: Arc<dyn Clock>) -> Self {
        Self { since: Arc::default(), incidents, clock }
    }

    /// Something failed, of this upload for one.
    pub fn seen(&self, error: &StoreError, upload: Uuid) {
        let now = self.clock.monotonic();
        let began = *self.since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
        if !error.is_about_us() && now.saturating_duration_since(began) < PATIENCE {
            return;
        }
        let what = format!(
            "The object store does not do what uploads ask of it: {error}. Uploads wait, this one for one: {upload}."
        );
        let commands = ["sudo maple-router check", "sudo maple-router uploads list"];
        self.incidents.raise(Incident::new(STORE, what, &commands));
    }

    /// Something worked.
    pub fn over(&self) {
        if self.since.lock().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.incidents.resolve(STORE);
        }
    }
}
