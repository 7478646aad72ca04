//! Faults of the help desk: rules, tried in order, the first match wins.
//!
//! Pure: a rule looks at a [`Moment`] and names an [`Act`]; the server carries it out. Counts live in the rule, so
//! "twice, then normal" needs no second rule.

use std::time::Duration;

use super::limits::Wait;
use crate::trap::{Snare, Trapped};

/// Point of a request at which a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A connection was accepted, and not a byte of it was read. Only [`Act::Disconnect`] and [`Act::Silence`] mean
    /// something here, and no condition on the request holds.
    Accepted,
    /// The request's head was read and counted, its body was not. No condition on tag or subject holds yet.
    Head,
    /// The whole request was read, with good credentials and within the limits, and nothing was done.
    Body,
    /// It was done: the ticket is made, or what was asked for is looked up, and nothing is answered.
    Answer,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// `POST tickets/`
    Create,
    /// `GET tickets/`: a list or a search.
    Search,
    /// `GET ticket/ID/`
    Ticket,
    /// `POST ticket/ID/update_tags/`
    Tags,
    /// `GET categories/`
    Categories,
    /// `GET ticket_custom_fields/`
    TicketFields,
    /// `GET user_custom_fields/`
    ContactFields,
    /// `GET priorities/`, `GET statuses/` or `GET staff/`
    Reference,
    /// Anything else.
    Unknown,
}

/// The help desk's act when a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// The act without any rule; useful with a delay.
    Normal,
    /// This status, with an error as the API says it.
    Status(u16),
    /// This status, with a page of HTML, as a proxy or a portal in between answers.
    Html(u16),
    /// 302 to this address.
    Redirect(String),
    /// 429 that names such a wait, for this request alone.
    Throttled(Wait),
    /// The connection is closed without a word.
    Disconnect,
    /// No answer; the connection stays open until the client gives up.
    Silence,
    /// The normal answer without its `id`.
    WithoutId,
    /// The normal answer with an `id` that is no number.
    WrongId,
    /// The first half of the normal answer, which is no JSON any more.
    Truncated,
    /// A search finds so many tickets that nobody made, in somebody else's name and with somebody else's tags.
    Strangers(u64),
    /// A search finds every ticket there is, whatever was asked for.
    IgnoreQuery,
}

impl Act {
    /// Whether the act takes the answer's place, so that at [`Stage::Body`] nothing is done.
    pub(super) fn replaces(&self) -> bool {
        match self {
            Self::Status(_)
            | Self::Html(_)
            | Self::Redirect(_)
            | Self::Throttled(_)
            | Self::Disconnect
            | Self::Silence => true,
            Self::Normal
            | Self::WithoutId
            | Self::WrongId
            | Self::Truncated
            | Self::Strangers(_)
            | Self::IgnoreQuery => false,
        }
    }
}

/// One scripted behaviour.
#[derive(Debug, Clone)]
pub struct Rule {
    stage: Stage,
    door: Option<u64>,
    call: Option<Call>,
    tag: Option<String>,
    subject: Option<String>,
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
            door: None,
            call: None,
            tag: None,
            subject: None,
            skip: 0,
            times: None,
            share: None,
            delay: Duration::ZERO,
            act: Act::Normal,
        }
    }

    /// Only for what comes in by this door.
    pub(super) fn behind(mut self, door: u64) -> Self {
        self.door = Some(door);
        self
    }

    /// Only for this call.
    #[must_use]
    pub fn call(mut self, call: Call) -> Self {
        self.call = Some(call);
        self
    }

    /// Only when the ticket has, or the search asks for, this tag.
    #[must_use]
    pub fn tagged(mut self, tag: &str) -> Self {
        self.tag = Some(tag.to_owned());
        self
    }

    /// Only when the new ticket's subject contains this.
    #[must_use]
    pub fn subject(mut self, part: &str) -> Self {
        self.subject = Some(part.to_owned());
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
            && self.door.is_none_or(|wanted| moment.door == wanted)
            && self.call.is_none_or(|wanted| moment.call == Some(wanted))
            && self.tag.as_ref().is_none_or(|wanted| moment.tags.contains(wanted))
            && self
                .subject
                .as_deref()
                .is_none_or(|wanted| moment.subject.is_some_and(|subject| subject.contains(wanted)))
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
    pub(super) door: u64,
    pub(super) call: Option<Call>,
    pub(super) tags: &'a [String],
    pub(super) subject: Option<&'a str>,
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
pub(super) struct Script {
    rules: Vec<InForce>,
}

impl Script {
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

    /// Forgets the rules of one door.
    pub(super) fn clear_behind(&mut self, door: u64) {
        self.rules.retain(|in_force| in_force.rule.door != Some(door));
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
                return Orders { delay: rule.delay, snare: snare.take(), act: rule.act.clone() };
            }
        }
        Orders { delay: Duration::ZERO, snare: None, act: Act::Normal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_acts_from_its_skip_on_and_as_often_as_it_says() {
        let mut script = Script::default();
        script.add(Rule::at(Stage::Body).call(Call::Create).skip(1).times(2).act(Act::Status(503)));
        let mut ask = |call| {
            let moment = Moment { stage: Stage::Body, door: 0, call: Some(call), tags: &[], subject: None };
            script.ask(&moment).act
        };
        assert_eq!(ask(Call::Search), Act::Normal);
        let acts: Vec<Act> = (0..5).map(|_| ask(Call::Create)).collect();
        assert_eq!(acts, [Act::Normal, Act::Status(503), Act::Status(503), Act::Normal, Act::Normal]);
    }

    #[test]
    fn conditions_hold_together_and_a_share_is_a_share() {
        let mut script = Script::default();
        script.add(Rule::at(Stage::Answer).tagged("b").subject("urgent").act(Act::Disconnect));
        script.add(Rule::at(Stage::Answer).share(500, 7).act(Act::Silence));
        let tags = ["a".to_owned(), "b".to_owned()];
        let moment = |tags, subject| Moment {
            stage: Stage::Answer,
            door: 0,
            call: None,
            tags,
            subject: Some(subject),
        };
        assert_eq!(script.ask(&moment(&tags, "most urgent")).act, Act::Disconnect);
        let (mut silent, all) = (0, 10_000);
        for _ in 0..all {
            silent += u32::from(script.ask(&moment(&tags[..1], "most urgent")).act == Act::Silence);
        }
        assert!((400..600).contains(&silent), "{silent} of {all} instead of about 500");
    }

    #[test]
    fn a_rule_of_one_door_holds_there_alone_and_goes_alone() {
        let mut script = Script::default();
        script.add(Rule::at(Stage::Body).behind(1).act(Act::Status(503)));
        script.add(Rule::at(Stage::Body).behind(2).act(Act::Silence));
        let act = |script: &mut Script, door| {
            script.ask(&Moment { stage: Stage::Body, door, call: None, tags: &[], subject: None }).act
        };
        let acts = [0, 1, 2].map(|door| act(&mut script, door));
        assert_eq!(acts, [Act::Normal, Act::Status(503), Act::Silence]);
        script.clear_behind(1);
        assert_eq!([1, 2].map(|door| act(&mut script, door)), [Act::Normal, Act::Silence]);
    }
}
