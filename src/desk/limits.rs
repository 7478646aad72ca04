//! Who asks too often: each user by themselves, and all attempts to log in together.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governor::clock::Clock as Ticking;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use super::problem::Problem;
use crate::ports::Clock;

/// The bounds of the desk. Production has the default; tests have smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests at once; a further one is told to come again.
    pub at_once: usize,
    /// Streams at once.
    pub streams: usize,
    /// Requests of one user without a pause, and how fast that is regained.
    pub per_user: (NonZeroU32, Duration),
    /// Attempts to log in without a pause, and how fast that is regained.
    pub logins: (NonZeroU32, Duration),
    /// Time that a refusal takes which nobody has to work for: whoever sends without a pause is answered at the pace of
    /// their connections.
    pub refusal: Duration,
    /// Longest time until an answer begins.
    pub answer: Duration,
    /// Life of a stream, after which its browser comes again.
    pub stream: Duration,
    /// Streams of learners at once.
    pub followers: usize,
    /// Life of a learner's stream: its cookie's.
    pub follow: Duration,
}

/// A number that is not zero.
const fn some(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            at_once: 64,
            streams: 256,
            per_user: (some(120), Duration::from_secs(40)),
            logins: (some(20), Duration::from_secs(60)),
            refusal: Duration::from_millis(250),
            answer: Duration::from_secs(15),
            stream: Duration::from_secs(600),
            followers: 2_048,
            follow: Duration::from_secs(1_800),
        }
    }
}

/// The clock of the limits.
#[derive(Debug, Clone)]
struct Ticks(Arc<dyn Clock>);

impl Ticking for Ticks {
    type Instant = Instant;

    fn now(&self) -> Instant {
        self.0.monotonic()
    }
}

type ByUser = RateLimiter<String, HashMapStateStore<String>, Ticks, NoOpMiddleware<Instant>>;
type Together = RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Instant>>;

/// The limits. Users are those of the configuration, so that memory is bounded.
pub struct RateLimits {
    users: ByUser,
    logins: Together,
    ticks: Ticks,
}

impl fmt::Debug for RateLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimits").finish_non_exhaustive()
    }
}

impl RateLimits {
    /// Limits within `bounds`.
    #[must_use]
    pub fn new(bounds: &Bounds, clock: Arc<dyn Clock>) -> Self {
        let ticks = Ticks(clock);
        let users = RateLimiter::hashmap_with_clock(quota(bounds.per_user), ticks.clone());
        let logins = RateLimiter::direct_with_clock(quota(bounds.logins), ticks.clone());
        Self { users, logins, ticks }
    }

    /// Counts a request of `user`.
    ///
    /// # Errors
    /// [`Problem`] 429.
    pub fn request(&self, user: &str) -> Result<(), Problem> {
        let checked = self.users.check_key(&user.to_owned());
        checked.map_err(|until| Problem::rate_limited(seconds(until.wait_time_from(self.ticks.now()))))
    }

    /// Counts an attempt to log in.
    ///
    /// # Errors
    /// [`Problem`] 429.
    pub fn login(&self) -> Result<(), Problem> {
        let checked = self.logins.check();
        checked.map_err(|until| Problem::rate_limited(seconds(until.wait_time_from(self.ticks.now()))))
    }
}

fn quota((burst, regained): (NonZeroU32, Duration)) -> Quota {
    let one = (regained / burst.get()).max(Duration::from_nanos(1));
    Quota::with_period(one).unwrap_or(Quota::per_second(burst)).allow_burst(burst)
}

fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
