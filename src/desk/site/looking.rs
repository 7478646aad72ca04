//! Who looks at which entry: a hint for others who do, kept in memory for a minute. Nobody is kept from anything by it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::ports::Clock;

/// How long somebody counts as looking.
const LOOKS: Duration = Duration::from_secs(60);
/// Entries that are remembered at most; a further one is not, until others are forgotten.
const MOST: usize = 1_000;

type Seen = BTreeMap<Uuid, BTreeMap<String, Instant>>;

/// Who looks at what.
pub(super) struct Looking {
    seen: Mutex<Seen>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Looking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looking").finish_non_exhaustive()
    }
}

impl Looking {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { seen: Mutex::default(), clock }
    }

    /// Records that `user` looks at `entry`, and names the others who did within a minute.
    pub(super) fn look(&self, entry: Uuid, user: &str) -> Vec<String> {
        let now = self.clock.monotonic();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        looked(&mut seen, entry, user, now)
    }
}

fn looked(seen: &mut Seen, entry: Uuid, user: &str, now: Instant) -> Vec<String> {
    let fresh = |at: &Instant| now.saturating_duration_since(*at) < LOOKS;
    seen.retain(|_, who| {
        who.retain(|_, at| fresh(at));
        !who.is_empty()
    });
    if seen.len() < MOST || seen.contains_key(&entry) {
        seen.entry(entry).or_default().insert(user.to_owned(), now);
    }
    let others = seen.get(&entry).into_iter().flat_map(BTreeMap::keys);
    others.filter(|name| *name != user).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn whoever_looked_within_a_minute_is_named_and_memory_is_bounded() {
        let (mut seen, start) = (Seen::new(), Instant::now());
        let entry = Uuid::from_u128(1);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(looked(&mut seen, entry, "anna", at(0)), Vec::<String>::new());
        assert_eq!(looked(&mut seen, entry, "ben", at(30)), ["anna"]);
        assert_eq!(looked(&mut seen, Uuid::from_u128(2), "ben", at(31)), Vec::<String>::new());
        assert_eq!(looked(&mut seen, entry, "cleo", at(59)), ["anna", "ben"]);
        assert_eq!(looked(&mut seen, entry, "cleo", at(60)), ["ben"], "a minute is over");
        for n in 0..2 * MOST {
            looked(&mut seen, Uuid::from_u128(n as u128), "anna", at(61));
        }
        assert!(seen.len() <= MOST, "{}", seen.len());
        assert_eq!(looked(&mut seen, Uuid::from_u128(5_000), "anna", at(200)), Vec::<String>::new());
        assert_eq!(seen.len(), 1, "what nobody looks at is forgotten");
    }
}
