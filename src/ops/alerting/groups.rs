//! The timing of alerts: the first message of a cause waits for more of the same, later ones ever longer, a lasting incident
//! is repeated, and an incident that ends before its first message is not reported at all.
//!
//! Pure: time is an argument. Causes are of two kinds: a *pile* (failures, notices), of which each message reports what has
//! gathered since the last, and an *incident*, which is reported once, again while it lasts, and once when it is over. If we
//! die all groups are gone; pending alerts are stored elsewhere and make new ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most groups kept. Causes have closed forms, but a relay can make up codes.
const MOST: usize = 512;

/// The intervals between alerts to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertIntervals {
    /// Time for which the first message of a cause waits for more of the same.
    pub group_wait: Duration,
    /// Time after which a lasting incident is repeated; a group quiet for as long has ended.
    pub repeat_interval: Duration,
}

/// The kind of report in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Say {
    /// The first report of an incident, or of a pile's next part.
    News,
    /// A reported incident still lasts.
    Still,
    /// A reported incident is over.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing to report; the group lives, so that later news does not come at once.
    Quiet,
    /// News, to be reported when due.
    Waiting { due: Instant },
    /// A reported incident lasts; repeated when due.
    Lasting { due: Instant },
    /// A reported incident is over; that is reported when due.
    Over { due: Instant },
}

#[derive(Debug, Clone, Copy)]
struct Group {
    state: State,
    incident: bool,
    /// Time of the last message.
    spoke: Option<Instant>,
    /// Shortest time from a message to the next news.
    wait: Duration,
    /// Last time at which there was something to report.
    active: Instant,
}

/// Every living cause.
#[derive(Debug)]
pub struct Groups<K> {
    intervals: AlertIntervals,
    groups: BTreeMap<K, Group>,
}

impl<K: Ord + Clone> Groups<K> {
    /// A set without causes.
    #[must_use]
    pub fn new(intervals: AlertIntervals) -> Self {
        Self { intervals, groups: BTreeMap::new() }
    }

    /// A pile has something to report.
    pub fn waiting(&mut self, cause: &K, now: Instant) {
        self.news(cause, false, now);
    }

    /// A pile has nothing to report any more: another process reported it, or it was mended.
    pub fn nothing(&mut self, cause: &K) {
        let Some(group) = self.groups.get_mut(cause) else { return };
        if matches!(group.state, State::Waiting { .. }) {
            group.state = State::Quiet;
            if group.spoke.is_none() {
                self.groups.remove(cause);
            }
        }
    }

    /// An incident is open.
    pub fn raised(&mut self, cause: &K, now: Instant) {
        self.news(cause, true, now);
    }

    /// An incident is over. Its end is reported only if its start was.
    pub fn resolved(&mut self, cause: &K, now: Instant) {
        match self.groups.get_mut(cause) {
            Some(group) if matches!(group.state, State::Lasting { .. }) => {
                group.state = State::Over { due: now }
            }
            Some(_) => self.nothing(cause),
            None => {}
        }
    }

    fn news(&mut self, cause: &K, incident: bool, now: Instant) {
        let AlertIntervals { group_wait, repeat_interval } = self.intervals;
        let group = self.groups.entry(cause.clone()).or_insert(Group {
            state: State::Quiet,
            incident,
            spoke: None,
            wait: group_wait,
            active: now,
        });
        group.active = now;
        group.state = match group.state {
            State::Quiet => {
                let soonest = now + group_wait;
                State::Waiting { due: group.spoke.map_or(soonest, |spoke| soonest.max(spoke + group.wait)) }
            }
            // The incident came back before its end was reported: for people, it never ended.
            State::Over { .. } => State::Lasting { due: group.spoke.unwrap_or(now) + repeat_interval },
            same @ (State::Waiting { .. } | State::Lasting { .. }) => same,
        };
    }

    /// Returns the reports that are due, the longest due first.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<(K, Say)> {
        let mut due: Vec<(Instant, &K, Say)> = self.planned().filter(|(at, ..)| *at <= now).collect();
        due.sort();
        due.into_iter().map(|(_, cause, say)| (cause.clone(), say)).collect()
    }

    /// Returns when the next report is due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.planned().map(|(at, ..)| at).min()
    }

    fn planned(&self) -> impl Iterator<Item = (Instant, &K, Say)> {
        self.groups.iter().filter_map(|(cause, group)| match group.state {
            State::Quiet => None,
            State::Waiting { due } => Some((due, cause, Say::News)),
            State::Lasting { due } => Some((due, cause, Say::Still)),
            State::Over { due } => Some((due, cause, Say::Over)),
        })
    }

    /// A report was sent, and confirmed. `more`: one message could not take all, the rest follows soon.
    pub fn sent(&mut self, cause: &K, more: bool, now: Instant) {
        let AlertIntervals { group_wait, repeat_interval } = self.intervals;
        let Some(group) = self.groups.get_mut(cause) else { return };
        (group.spoke, group.active) = (Some(now), now);
        if more {
            group.state = State::Waiting { due: now + group_wait };
            return;
        }
        let was_news = matches!(group.state, State::Waiting { .. });
        group.state = match group.state {
            State::Waiting { .. } | State::Lasting { .. } if group.incident => {
                State::Lasting { due: now + repeat_interval }
            }
            State::Waiting { .. } | State::Lasting { .. } | State::Over { .. } | State::Quiet => State::Quiet,
        };
        if was_news {
            group.wait = group.wait.saturating_mul(2).min(repeat_interval);
        }
    }

    /// A report could not be sent; the next attempt is not before `until`.
    pub fn postponed(&mut self, cause: &K, until: Instant) {
        if let Some(group) = self.groups.get_mut(cause) {
            match &mut group.state {
                State::Waiting { due } | State::Lasting { due } | State::Over { due } => *due = until,
                State::Quiet => {}
            }
        }
    }

    /// Ends groups that were quiet for long enough, and the quietest where there are too many.
    pub fn tidy(&mut self, now: Instant) {
        let quiet = self.intervals.repeat_interval;
        self.groups.retain(|_, group| group.state != State::Quiet || now < group.active + quiet);
        while self.groups.len() > MOST {
            let oldest =
                self.groups.iter().filter(|(_, group)| !group.incident).min_by_key(|(_, group)| group.active);
            let Some(cause) = oldest.map(|(cause, _)| cause.clone()) else { return };
            self.groups.remove(&cause);
        }
    }

    /// Returns whether a cause has something to report, now or later.
    #[must_use]
    pub fn has_to_tell(&self, cause: &K) -> bool {
        self.groups.get(cause).is_some_and(|group| group.state != State::Quiet)
    }

    /// Returns the living causes.
    pub fn causes(&self) -> impl Iterator<Item = &K> {
        self.groups.keys()
    }
}

#[cfg(test)]
mod tests;
