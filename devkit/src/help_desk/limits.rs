//! The limits of an account: so many GETs and POSTs in a window; past one of them every request is refused until the throttle
//! ends.
//!
//! Documented: 500 GET and 300 POST a minute, then 429 for ten minutes (knowledge base, article 1148). Guessed, because the
//! articles do not say: that a refused request neither counts nor prolongs the throttle; and the two ways in which a 429 names
//! its wait, `Retry-After` and "Throttled, wait N seconds.", which the client hfox reads. (An old manual has 503 "along with the
//! time to wait before retrying in the response body": a rule can say that with [`super::Act::Status`], without the words.)

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How a 429 names its wait, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wait {
    /// In the header `Retry-After`.
    pub header: Option<u64>,
    /// In the body: "Throttled, wait N seconds."
    pub body: Option<u64>,
}

impl Wait {
    /// Named in the header alone.
    #[must_use]
    pub fn in_header(seconds: u64) -> Self {
        Self { header: Some(seconds), body: None }
    }

    /// Named in the body alone.
    #[must_use]
    pub fn in_body(seconds: u64) -> Self {
        Self { header: None, body: Some(seconds) }
    }

    /// The same in both.
    #[must_use]
    pub fn in_both(seconds: u64) -> Self {
        Self { header: Some(seconds), body: Some(seconds) }
    }

    /// Named nowhere.
    #[must_use]
    pub fn unnamed() -> Self {
        Self::default()
    }
}

/// Where the account's own 429 names what is left of the throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Naming {
    /// `Retry-After`.
    Header,
    /// The body.
    Body,
    /// Both.
    #[default]
    Both,
    /// Neither: a client must find its own wait.
    Nowhere,
}

impl Naming {
    /// Names this time, in whole seconds and never too short.
    pub(super) fn wait(self, left: Duration) -> Wait {
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        match self {
            Self::Header => Wait::in_header(seconds),
            Self::Body => Wait::in_body(seconds),
            Self::Both => Wait::in_both(seconds),
            Self::Nowhere => Wait::unnamed(),
        }
    }
}

/// The limits of an account.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// GETs in a window.
    pub gets: usize,
    /// POSTs in a window.
    pub posts: usize,
    /// The window: a minute.
    pub window: Duration,
    /// How long every request is refused once a limit is passed: ten minutes.
    pub throttle: Duration,
    /// Where a 429 names the rest of it.
    pub naming: Naming,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            gets: 500,
            posts: 300,
            window: Duration::from_secs(60),
            throttle: Duration::from_secs(600),
            naming: Naming::default(),
        }
    }
}

/// The highest numbers of requests in any window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peaks {
    /// GETs.
    pub gets: usize,
    /// POSTs.
    pub posts: usize,
}

/// Times of one kind of request.
#[derive(Debug, Default)]
struct Window(VecDeque<Instant>);

impl Window {
    /// Counts one at `now`; how many there are in the window that ends with it.
    fn add(&mut self, now: Instant, window: Duration) -> usize {
        self.0.push_back(now);
        while self.0.front().is_some_and(|at| now.duration_since(*at) >= window) {
            self.0.pop_front();
        }
        self.0.len()
    }
}

/// Counts requests, and throttles.
#[derive(Debug, Default)]
pub(super) struct Meter {
    seen_gets: Window,
    seen_posts: Window,
    admitted_gets: Window,
    admitted_posts: Window,
    peaks: Peaks,
    throttled_until: Option<Instant>,
}

impl Meter {
    /// Sees a request of any kind, whatever becomes of it.
    pub(super) fn see(&mut self, post: bool, now: Instant, limits: &Limits) {
        if post {
            self.peaks.posts = self.peaks.posts.max(self.seen_posts.add(now, limits.window));
        } else {
            self.peaks.gets = self.peaks.gets.max(self.seen_gets.add(now, limits.window));
        }
    }

    /// Lets a request in, or says how long the throttle lasts that it meets or brings about.
    pub(super) fn admit(&mut self, post: bool, now: Instant, limits: &Limits) -> Result<(), Duration> {
        if let Some(until) = self.throttled_until {
            if until > now {
                return Err(until - now);
            }
            self.end_throttle();
        }
        let (window, most) = if post {
            (&mut self.admitted_posts, limits.posts)
        } else {
            (&mut self.admitted_gets, limits.gets)
        };
        if window.add(now, limits.window) > most {
            self.throttle(now, limits.throttle);
            return Err(limits.throttle);
        }
        Ok(())
    }

    /// Refuses every request for so long.
    pub(super) fn throttle(&mut self, now: Instant, time: Duration) {
        self.throttled_until = Some(now + time);
    }

    /// Lets requests in again, and begins to count anew.
    pub(super) fn end_throttle(&mut self) {
        self.throttled_until = None;
        (self.admitted_gets, self.admitted_posts) = (Window::default(), Window::default());
    }

    pub(super) fn peaks(&self) -> Peaks {
        self.peaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "an instant to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn past_a_limit_everything_waits_until_the_throttle_ends() {
        let limits = Limits { gets: 3, posts: 2, throttle: Duration::from_secs(600), ..Limits::default() };
        let (mut meter, zero) = (Meter::default(), start());
        let at = |seconds| zero + Duration::from_secs(seconds);
        let left = |seconds| Err(Duration::from_secs(seconds));
        assert_eq!(meter.admit(true, at(0), &limits), Ok(()));
        assert_eq!(meter.admit(true, at(59), &limits), Ok(()));
        assert_eq!(meter.admit(true, at(60), &limits), Ok(()), "the first has left the window");
        assert_eq!(meter.admit(false, at(61), &limits), Ok(()), "GETs have a limit of their own");
        assert_eq!(meter.admit(true, at(62), &limits), left(600));
        assert_eq!(meter.admit(false, at(70), &limits), left(592), "every request");
        assert_eq!(meter.admit(true, at(661), &limits), left(1));
        assert_eq!(meter.admit(true, at(662), &limits), Ok(()));
        assert_eq!(meter.admit(true, at(663), &limits), Ok(()), "counted anew");
    }

    #[test]
    fn peaks_are_of_the_fullest_window() {
        let (mut meter, zero, limits) = (Meter::default(), start(), Limits::default());
        for seconds in [0, 10, 20, 65, 66, 130] {
            meter.see(true, zero + Duration::from_secs(seconds), &limits);
        }
        assert_eq!(meter.peaks(), Peaks { gets: 0, posts: 4 });
    }

    #[test]
    fn a_wait_is_named_in_whole_seconds_and_never_too_short() {
        assert_eq!(Naming::Both.wait(Duration::from_millis(1_001)), Wait::in_both(2));
        assert_eq!(Naming::Header.wait(Duration::from_secs(2)), Wait::in_header(2));
        assert_eq!(Naming::Nowhere.wait(Duration::from_secs(2)), Wait::unnamed());
    }
}
