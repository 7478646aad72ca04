//! Links that are handed out again: the mails of one submission, and a mail that is tried again, say the same link.
//!
//! A link gives anybody who has it the same right to the same bytes, so two recipients of one link learn nothing from each
//! other. It ends a little earlier than a new one would, by at most [`LONGEST`] and a [`PART_OF_LIFE`]th of its life; the mail says
//! when. Links are kept in memory alone, and forgotten with the signer.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::ports::{LinkRequest, SignedLink};

/// Links kept: some 2 KB each.
const MOST: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Longest time for which a link is handed out again.
const LONGEST: Duration = Duration::from_secs(3600);
/// Part of a link's life for which it is handed out again: an hour of a day.
const PART_OF_LIFE: u32 = 24;

/// The links that were made last.
pub(super) struct SharedLinks(Mutex<LruCache<Key, Made>>);

/// The identity of a link: all of a request but the time for which it is to work.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    bucket: String,
    object: String,
    file_name: String,
}

/// A link with the instant, taken before it was signed, from which it works for `life`.
struct Made {
    link: SignedLink,
    at: Instant,
    life: Duration,
}

impl Default for SharedLinks {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MOST)))
    }
}

impl SharedLinks {
    /// The link made for such a request, unless it ends too early, or later than is asked for.
    pub(super) fn get(&self, request: &LinkRequest, now: Instant) -> Option<SignedLink> {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = links.get(&Key::of(request))?;
        let left = made.life.checked_sub(now.saturating_duration_since(made.at))?;
        let earlier = request.ttl.checked_sub(left)?;
        (earlier <= LONGEST.min(request.ttl / PART_OF_LIFE)).then(|| made.link.clone())
    }

    /// Keeps a link that was begun at `at`.
    pub(super) fn put(&self, request: &LinkRequest, link: &SignedLink, at: Instant) {
        // A URL says whole seconds.
        let life = Duration::from_secs(request.ttl.as_secs());
        let made = Made { link: link.clone(), at, life };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(Key::of(request), made);
    }
}

impl Key {
    fn of(request: &LinkRequest) -> Self {
        let LinkRequest { bucket, object, file_name, ttl: _ } = request;
        Self { bucket: bucket.clone(), object: object.clone(), file_name: file_name.clone() }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "any instant will do")]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn request(object: &str, ttl: Duration) -> LinkRequest {
        LinkRequest { bucket: "b".to_owned(), object: object.to_owned(), file_name: "f".to_owned(), ttl }
    }

    fn link(url: &str) -> SignedLink {
        SignedLink { url: url.to_owned(), valid_until: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_link_is_shared_for_an_hour_of_a_day_and_for_less_of_a_shorter_life() {
        let began = Instant::now();
        let cases = [
            (7 * DAY, Duration::from_secs(3600), true),
            (7 * DAY, Duration::from_secs(3601), false),
            (DAY, Duration::from_secs(3600), true),
            (Duration::from_secs(2400), Duration::from_secs(100), true),
            (Duration::from_secs(2400), Duration::from_secs(101), false),
            (Duration::from_secs(1), Duration::from_secs(2), false),
        ];
        for (ttl, age, shared) in cases {
            let links = SharedLinks::default();
            links.put(&request("o", ttl), &link("made"), began);
            assert_eq!(links.get(&request("o", ttl), began + age).is_some(), shared, "{ttl:?} after {age:?}");
        }
    }

    #[test]
    fn a_link_is_not_shared_beyond_the_time_that_is_asked_for() {
        let began = Instant::now();
        let links = SharedLinks::default();
        links.put(&request("o", DAY), &link("made"), began);
        let soon = began + Duration::from_secs(60);
        assert!(links.get(&request("o", DAY - Duration::from_secs(61)), soon).is_none());
        // The retention that bounds a link's life comes nearer while the link ages.
        assert!(links.get(&request("o", DAY - Duration::from_secs(60)), soon).is_some());
    }

    #[test]
    fn what_is_another_object_or_file_name_has_a_link_of_its_own() {
        let began = Instant::now();
        let links = SharedLinks::default();
        links.put(&request("o", DAY), &link("made"), began);
        assert!(links.get(&request("p", DAY), began).is_none());
        let renamed = LinkRequest { file_name: "g".to_owned(), ..request("o", DAY) };
        assert!(links.get(&renamed, began).is_none());
        let moved = LinkRequest { bucket: "c".to_owned(), ..request("o", DAY) };
        assert!(links.get(&moved, began).is_none());
    }

    #[test]
    fn the_links_that_were_wanted_last_are_kept() {
        let began = Instant::now();
        let links = SharedLinks::default();
        for number in 0..=MOST.get() {
            links.put(&request(&number.to_string(), DAY), &link("made"), began);
        }
        assert!(links.get(&request("0", DAY), began).is_none());
        assert!(links.get(&request("1", DAY), began).is_some());
    }
}
