//! When people are told: the first message of a cause waits for more of the same, later ones ever longer, nothing that
//! lasts is forgotten, and nothing that is over before anybody heard of it is told at all.
//!
//! Pure: time is an argument. Two kinds of causes: a *pile* (failures, notices), of which each message tells what has
//! gathered since the last, and an *incident*, which is told of once, again while it lasts, and once when it is over.
//! If we die all groups are gone; what waits to be told lives elsewhere and makes new ones.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most groups kept. Causes have closed forms, but a relay can make up codes.
const MOST: usize = 512;

/// How often people may be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The first message of a cause waits this long for more of the same.
    pub group_wait: Duration,
    /// An incident that lasts is repeated after this long; a group that was quiet for as long has ended.
    pub repeat_interval: Duration,
}

/// What a message is about to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Say {
    /// Something new.
    News,
    /// An incident that was told of still lasts.
    Still,
    /// An incident that was told of is over.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing to tell; the group lives, so that what comes next does not come at once.
    Quiet,
    /// Something new is told when due.
    Waiting { due: Instant },
    /// An incident was told of and lasts; told again when due.
    Lasting { due: Instant },
    /// An incident was told of and is over; told when due.
    Over { due: Instant },
}

#[derive(Debug, Clone, Copy)]
struct Group {
    state: State,
    incident: bool,
    /// When the last message went out.
    spoke: Option<Instant>,
    /// How long after a message the next news waits at least.
    wait: Duration,
    /// When there last was something to tell.
    active: Instant,
}

/// Every cause that is alive.
#[derive(Debug)]
pub struct Groups<K> {
    pace: Pace,
    groups: BTreeMap<K, Group>,
}

impl<K: Ord + Clone> Groups<K> {
    /// No causes yet.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, groups: BTreeMap::new() }
    }

    /// Something of this pile waits to be told.
    pub fn waiting(&mut self, cause: &K, now: Instant) {
        self.news(cause, false, now);
    }

    /// Nothing of this pile waits any more: somebody else told of it, or it was mended.
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

    /// An incident is over. One that nobody was told of is not told of at all.
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
        let Pace { group_wait, repeat_interval } = self.pace;
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
            // It came back before its end was told: to those who were told, it never ended.
            State::Over { .. } => State::Lasting { due: group.spoke.unwrap_or(now) + repeat_interval },
            same @ (State::Waiting { .. } | State::Lasting { .. }) => same,
        };
    }

    /// What is to be told now, the longest due first.
    #[must_use]
    pub fn due(&self, now: Instant) -> Vec<(K, Say)> {
        let mut due: Vec<(Instant, &K, Say)> = self.planned().filter(|(at, ..)| *at <= now).collect();
        due.sort();
        due.into_iter().map(|(_, cause, say)| (cause.clone(), say)).collect()
    }

    /// When the next is to be told.
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

    /// It was told, and confirmed. `more`: there was more than one message holds, the rest follows soon.
    pub fn sent(&mut self, cause: &K, more: bool, now: Instant) {
        let Pace { group_wait, repeat_interval } = self.pace;
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

    /// It could not be told; not before `until`.
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
        let quiet = self.pace.repeat_interval;
        self.groups.retain(|_, group| group.state != State::Quiet || now < group.active + quiet);
        while self.groups.len() > MOST {
            let oldest =
                self.groups.iter().filter(|(_, group)| !group.incident).min_by_key(|(_, group)| group.active);
            let Some(cause) = oldest.map(|(cause, _)| cause.clone()) else { return };
            self.groups.remove(&cause);
        }
    }

    /// Whether there is something to tell of a cause, now or later.
    #[must_use]
    pub fn has_to_tell(&self, cause: &K) -> bool {
        self.groups.get(cause).is_some_and(|group| group.state != State::Quiet)
    }

    /// The causes that live.
    pub fn causes(&self) -> impl Iterator<Item = &K> {
        self.groups.keys()
    }
}

#[cfg(test)]
mod tests;
