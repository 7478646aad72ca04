//! The time one delivery has: how long each step may wait, and whether the final dot may still be written.
//!
//! Nothing here outlives a send. No function reads a clock: the time spent is an argument.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::SmtpSettings;
use super::reply::remark;
use crate::ports::{Fault, Stage};

/// Time after a timer fires in which bytes waiting in the socket are still read (protocol, "Crash, doubt"): a
/// process that was suspended wakes with both. Long enough for one round of the reactor on a busy host.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// The time a whole delivery has, the reply to its final dot included.
pub(super) struct Patience {
    deadline: Instant,
}

impl Patience {
    /// A deadline a little early, so that the last look is over when `whole` is.
    pub(super) fn new(whole: Duration) -> Self {
        Self { deadline: sleep(whole.saturating_sub(LAST_LOOK)).deadline() }
    }

    /// `None` when neither `limit` nor the whole sufficed.
    pub(super) async fn allow<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        // One timer for both.
        let until = sleep(limit).deadline().min(self.deadline);
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = sleep_until(until) => {}
        }
        timeout(LAST_LOOK, work).await.ok()
    }
}

/// Limit of the wait for the reply to the final dot when `spent` of the delivery's time has gone; or why the dot is
/// not written.
///
/// The reply must come within `delivery_deadline`, on which the times of claim, drain and sweep are built. Less than half
/// of `dot_timeout` is too short for a relay that was slow all along: the dot would only turn a certain "not sent"
/// into a doubt.
pub(super) fn last_call(settings: &SmtpSettings, spent: Duration) -> Result<Duration, Fault> {
    let SmtpSettings { delivery_deadline: whole, dot_timeout: most, .. } = *settings;
    let refused = |stage, why: &str| Err(Fault { stage, reply: remark(why), about_us: true });
    match whole.checked_sub(spent) {
        // A process that slept through its deadline must not finish an older send.
        None => refused(Stage::Data, "the delivery's time was up before its final dot"),
        Some(left) if left < most / 2 => {
            let (left, whole) = (human(left), human(whole));
            let why = format!(
                "the relay was too slow: {left} of the delivery's {whole} remained for the answer to the final dot, \
                 which was therefore not written"
            );
            refused(Stage::Fence, &why)
        }
        Some(left) => Ok(left.min(most)),
    }
}

/// A duration as people write it: the rest of a deadline comes in nanoseconds.
pub(super) fn human(limit: Duration) -> humantime::FormattedDuration {
    let fine = limit.subsec_nanos() % 1_000_000;
    humantime::format_duration(limit.saturating_sub(Duration::from_nanos(fine.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_to_the_dot_gets_what_remains_or_the_dot_is_not_written() {
        let base = SmtpSettings::from(&crate::config::Smtp::default());
        let s = Duration::from_secs;
        let ms = Duration::from_millis;
        // (delivery_deadline, spent, dot_timeout): the wait, or the stage that stopped it.
        for (whole, spent, dot, expected) in [
            (s(180), s(0), s(120), Ok(s(120))),
            (s(180), s(60), s(120), Ok(s(120))),
            (s(180), s(61), s(120), Ok(s(119))),
            (s(180), s(120), s(120), Ok(s(60))),
            (s(180), ms(120_001), s(120), Err(Stage::Fence)),
            (s(180), s(180), s(120), Err(Stage::Fence)),
            (s(180), ms(180_001), s(120), Err(Stage::Data)),
            (s(180), s(3600), s(120), Err(Stage::Data)),
            (s(180), s(10), s(300), Ok(s(170))),
            (s(180), s(31), s(300), Err(Stage::Fence)),
        ] {
            let settings = SmtpSettings { delivery_deadline: whole, dot_timeout: dot, ..base.clone() };
            let found = last_call(&settings, spent);
            let case = format!("{spent:?} of {whole:?} spent, dot {dot:?}");
            match (&found, expected) {
                (Ok(wait), Ok(expected)) => {
                    assert_eq!(*wait, expected, "{case}");
                    assert!(spent + *wait <= whole, "{case}");
                }
                (Err(fault), Err(stage)) => {
                    assert_eq!((fault.stage, fault.about_us), (stage, true), "{case}");
                }
                (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("{case}: {found:?}"),
            }
        }
        let slow = last_call(&base, base.delivery_deadline - ms(59_999)).unwrap_err();
        assert!(slow.reply.reply.starts_with("the relay was too slow: 59s 999ms of"), "{slow:?}");
    }
}
