//! Faults of the object store: rules, tried in order, the first match wins.
//!
//! Pure: a rule looks at a [`Moment`] and names an [`Act`]; the server carries it out. Counts live in the rule, so
//! "twice, then normal" needs no second rule.

use std::time::Duration;

use crate::trap::{Snare, Trapped};

/// Point of a request at which a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The request's head was read and counted, its body was not.
    Head,
    /// The whole request was read and may be done, and nothing was done: before the effect.
    Before,
    /// It was done, and nothing is answered: after the effect.
    After,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `POST ?uploads`: a multipart upload begins.
    Initiate,
    /// `PUT ?partNumber&uploadId`
    Part,
    /// `GET ?uploadId`
    ListParts,
    /// `POST ?uploadId`
    Complete,
    /// `DELETE ?uploadId`
    Abort,
    /// `GET ?uploads` of a bucket.
    ListUploads,
    /// A download, by either API, or a HEAD.
    Read,
    /// An upload in one piece or by a resumable session, by either API.
    Write,
    /// Of an object.
    Delete,
    /// JSON's `rewriteTo`.
    Rewrite,
    /// JSON's list of objects.
    List,
    /// JSON's metadata of an object.
    Metadata,
    /// JSON's metadata of a bucket.
    Bucket,
    /// JSON's `testPermissions` of a bucket: what the account may do there.
    Permissions,
    /// A browser's OPTIONS.
    Preflight,
    /// Anything else.
    Unknown,
}

/// The store's act when a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The act without any rule; useful with a delay.
    Normal,
    /// This status, with an error as the API says it.
    Status(u16),
    /// The connection is closed without a word.
    Disconnect,
    /// No answer; the connection stays open until the client gives up.
    Silence,
    /// A download with one bit of it, the last one, changed.
    Flipped,
    /// A download whose connection ends in the middle of it.
    Truncated,
    /// A download that stands still in the middle of it; the connection stays open.
    Stalled,
    /// 200, and in the body an error of the XML API: how the service says of a completion what it finds out too late.
    ErrorInside,
}

impl Act {
    /// Whether the act takes the answer's place.
    pub(super) fn replaces(self) -> bool {
        match self {
            Self::Status(_) | Self::Disconnect | Self::Silence | Self::ErrorInside => true,
            Self::Normal | Self::Flipped | Self::Truncated | Self::Stalled => false,
        }
    }
}

/// One scripted behaviour.
#[derive(Debug, Clone)]
pub struct Rule {
    stage: Stage,
    call: Option<Call>,
    bucket: Option<String>,
    object: Option<String>,
    part: Option<u16>,
    skip: u64,
    times: Option<u64>,
    share: Option<(u64, u64)>,
    delay: Duration,
    act: Act,
}

impl Rule {
    /// A rule that matches everything at this stage, always, and does nothing.
    #[must_use]
    pub fn at(stage: Stage) -> Self {
        Self {
            stage,
            call: None,
            bucket: None,
            object: None,
            part: None,
            skip: 0,
            times: None,
            share: None,
            delay: Duration::ZERO,
            act: Act::Normal,
        }
    }

    /// Only for this call.
    #[must_use]
    pub fn call(mut self, call: Call) -> Self {
        self.call = Some(call);
        self
    }

    /// Only in this bucket; of a rewrite, the source's.
    #[must_use]
    pub fn bucket(mut self, bucket: &str) -> Self {
        self.bucket = Some(bucket.to_owned());
        self
    }

    /// Only for objects whose name begins like this.
    #[must_use]
    pub fn object(mut self, prefix: &str) -> Self {
        self.object = Some(prefix.to_owned());
        self
    }

    /// Only for the part of this number.
    #[must_use]
    pub fn part(mut self, number: u16) -> Self {
        self.part = Some(number);
        self
    }

    /// Let the first `n` matches pass.
    #[must_use]
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// Act `n` times, then no more.
    #[must_use]
    pub fn times(mut self, n: u64) -> Self {
        self.times = Some(n);
        self
    }

    /// Only for so many of 10,000 matches, spread as if at random; the same ones for the same seed. A match it lets
    /// pass goes on to the next rule. Not to be combined with `skip` and `times`.
    #[must_use]
    pub fn share(mut self, of_ten_thousand: u64, seed: u64) -> Self {
        self.share = Some((of_ten_thousand, seed));
        self
    }

    /// Wait before acting.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the [`Act`].
    #[must_use]
    pub fn act(mut self, act: Act) -> Self {
        self.act = act;
        self
    }

    fn matches(&self, moment: &Moment<'_>) -> bool {
        self.stage == moment.stage
            && self.call.is_none_or(|wanted| moment.call == wanted)
            && self.bucket.as_deref().is_none_or(|wanted| moment.bucket == wanted)
            && self.object.as_deref().is_none_or(|wanted| moment.object.starts_with(wanted))
            && self.part.is_none_or(|wanted| moment.part == Some(wanted))
    }
}

/// Spreads a counter over all numbers (splitmix64).
fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The request's state when a rule is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) stage: Stage,
    pub(super) call: Call,
    pub(super) bucket: &'a str,
    pub(super) object: &'a str,
    pub(super) part: Option<u16>,
}

/// A rule's orders to the server.
#[derive(Debug)]
pub(super) struct Orders {
    /// First wait so long,
    pub(super) delay: Duration,
    /// then stand still here,
    pub(super) snare: Option<Snare>,
    /// then do this.
    pub(super) act: Act,
}

/// A rule in force.
#[derive(Debug)]
struct InForce {
    rule: Rule,
    seen: u64,
    snare: Option<Snare>,
}

/// The rules in force, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct Rules {
    rules: Vec<InForce>,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push(InForce { rule, seen: 0, snare: None });
    }

    /// A rule that acts once, and stands still before. In front of those that are there: what it is to catch may go on by
    /// an older rule.
    pub(super) fn trap(&mut self, rule: Rule) -> Trapped {
        let (snare, trapped) = Snare::set();
        self.rules.insert(0, InForce { rule: rule.times(1), seen: 0, snare: Some(snare) });
        trapped
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The first rule that matches and is not used up; matching counts, also while it is still skipped.
    pub(super) fn ask(&mut self, moment: &Moment<'_>) -> Orders {
        for InForce { rule, seen, snare } in &mut self.rules {
            let used_up = rule.times.is_some_and(|times| *seen >= rule.skip.saturating_add(times));
            if used_up || !rule.matches(moment) {
                continue;
            }
            *seen += 1;
            if rule.share.is_some_and(|(share, seed)| scatter(seed.wrapping_add(*seen)) % 10_000 >= share) {
                continue;
            }
            if *seen > rule.skip {
                return Orders { delay: rule.delay, snare: snare.take(), act: rule.act };
            }
        }
        Orders { delay: Duration::ZERO, snare: None, act: Act::Normal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_acts_from_its_skip_on_as_often_as_it_says_and_where_all_conditions_hold() {
        let mut rules = Rules::default();
        let rule = Rule::at(Stage::Before).call(Call::Part).bucket("b").object("a/").part(2);
        rules.add(rule.skip(1).times(2).act(Act::Status(503)));
        let mut ask = |call, bucket, object, part| {
            rules.ask(&Moment { stage: Stage::Before, call, bucket, object, part: Some(part) }).act
        };
        for (call, bucket, object, part) in [
            (Call::Complete, "b", "a/x", 2),
            (Call::Part, "c", "a/x", 2),
            (Call::Part, "b", "x", 2),
            (Call::Part, "b", "a/x", 1),
        ] {
            assert_eq!(ask(call, bucket, object, part), Act::Normal);
        }
        let acts: Vec<Act> = (0..4).map(|_| ask(Call::Part, "b", "a/x", 2)).collect();
        assert_eq!(acts, [Act::Normal, Act::Status(503), Act::Status(503), Act::Normal]);
    }
}
