//! Faults of the scripted SMTP server: rules, tried in order, the first match wins.
//!
//! Pure: a rule looks at a [`Moment`] and names an [`Act`]; the session carries it out. Counts live in the rule, so
//! "twice, then normal" needs no second rule.

use std::time::Duration;

use crate::trap::{Snare, Trapped};

/// Point of the dialogue at which a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// After accept, before the greeting.
    Banner,
    /// EHLO and HELO.
    Ehlo,
    /// MAIL FROM.
    Mail,
    /// RCPT TO, once per recipient.
    Rcpt,
    /// The DATA command.
    Data,
    /// The middle of the message: its first bytes have been read, the final dot has not.
    Body,
    /// The final dot has been read and nothing is stored yet: what is said here decides the mail.
    Dot,
    /// The mail is stored, its reply is not yet written: silence or a disconnect here leaves the client in doubt.
    AfterDot,
    /// The reply to the final dot, a 250, is written: only a trap has something to do here.
    Replied,
    /// RSET.
    Rset,
    /// NOOP.
    Noop,
    /// QUIT.
    Quit,
}

/// The server's act when a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// The act without any rule; useful with a delay.
    Normal,
    /// These lines as one (multi-line) reply; each is complete, e.g. `550 5.1.1 no such user`. A 2xx accepts.
    Reply(Vec<String>),
    /// This reply, then the connection is closed, like `421`.
    ReplyThenClose(String),
    /// The connection is closed without a word.
    Disconnect,
    /// No reply; the connection stays open until the client gives up.
    Silence,
    /// These bytes as they are, instead of the reply; the dialogue goes on as if the normal reply had been given.
    Bytes(Vec<u8>),
    /// The normal reply, and these bytes right behind it: a relay that speaks unasked.
    NormalThenBytes(Vec<u8>),
}

/// One scripted behaviour.
#[derive(Debug, Clone)]
pub struct Rule {
    stage: Stage,
    sender: Option<String>,
    recipient: Option<String>,
    message_id: Option<String>,
    submission_id: Option<String>,
    skip: u64,
    times: Option<u64>,
    /// Of 10,000 matches, and where its sequence starts.
    share: Option<(u64, u64)>,
    delay: Duration,
    act: Act,
}

impl Rule {
    /// A rule for one stage that changes nothing until it gets an effect.
    #[must_use]
    pub fn at(stage: Stage) -> Self {
        Self {
            stage,
            sender: None,
            recipient: None,
            message_id: None,
            submission_id: None,
            skip: 0,
            times: None,
            share: None,
            delay: Duration::ZERO,
            act: Act::Normal,
        }
    }

    /// Restricts to this envelope sender (whole address, any case).
    #[must_use]
    pub fn from(mut self, sender: &str) -> Self {
        self.sender = Some(sender.to_owned());
        self
    }

    /// Restricts to this recipient (whole address, or `@domain`; any case). From DATA on: one of those accepted.
    #[must_use]
    pub fn to(mut self, recipient: &str) -> Self {
        self.recipient = Some(recipient.to_owned());
        self
    }

    /// Restricts to this Message-ID, with or without angle brackets. Known from the final dot on.
    #[must_use]
    pub fn message_id(mut self, id: &str) -> Self {
        self.message_id = Some(id.trim_matches(['<', '>']).to_owned());
        self
    }

    /// Restricts to this `X-Submission-ID`. Known from the final dot on.
    #[must_use]
    pub fn submission(mut self, id: &str) -> Self {
        self.submission_id = Some(id.to_owned());
        self
    }

    /// The first `n` matches are normal.
    #[must_use]
    pub fn skip(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    /// At most `n` times, then normal.
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

    /// A one-line reply, e.g. `451 4.3.0 try again`.
    #[must_use]
    pub fn reply(self, line: &str) -> Self {
        self.act(Act::Reply(vec![line.to_owned()]))
    }

    /// A reply of several lines, all with the same code.
    #[must_use]
    pub fn reply_lines(self, lines: &[&str]) -> Self {
        self.act(Act::Reply(lines.iter().map(|&line| line.to_owned()).collect()))
    }

    /// Close without a word.
    #[must_use]
    pub fn disconnect(self) -> Self {
        self.act(Act::Disconnect)
    }

    /// Say nothing.
    #[must_use]
    pub fn silence(self) -> Self {
        self.act(Act::Silence)
    }

    fn matches(&self, moment: &Moment<'_>) -> bool {
        self.stage == moment.stage
            && self.sender.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(moment.sender))
            && self
                .recipient
                .as_deref()
                .is_none_or(|wanted| moment.recipients.iter().any(|given| same_recipient(wanted, given)))
            && self.message_id.as_deref().is_none_or(|wanted| moment.message_id == Some(wanted))
            && self.submission_id.as_deref().is_none_or(|wanted| moment.submission_id == Some(wanted))
    }
}

fn same_recipient(wanted: &str, given: &str) -> bool {
    match given.rsplit_once('@') {
        Some((_, domain)) if wanted.starts_with('@') => wanted[1..].eq_ignore_ascii_case(domain),
        Some(_) | None => wanted.eq_ignore_ascii_case(given),
    }
}

/// Spreads a counter over all numbers (splitmix64).
fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The session's state when a rule is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) stage: Stage,
    pub(super) sender: &'a str,
    /// At RCPT the one asked for, later those accepted.
    pub(super) recipients: &'a [String],
    /// Without angle brackets.
    pub(super) message_id: Option<&'a str>,
    pub(super) submission_id: Option<&'a str>,
}

/// A rule's orders to the session.
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

    /// A rule that acts once, and stands still before.
    pub(super) fn trap(&mut self, rule: Rule) -> Trapped {
        let (snare, trapped) = Snare::set();
        // Before those that are there: a trap is set for a dialogue that may be going on by an older rule.
        self.rules.insert(0, InForce { rule: rule.times(1), seen: 0, snare: Some(snare) });
        trapped
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The first rule that matches and is not used up; matching counts, also while it is still skipped.
    pub(super) fn ask(&mut self, moment: &Moment<'_>) -> Orders {
        for InForce { rule, seen, snare } in &mut self.rules {
            if !rule.matches(moment) {
                continue;
            }
            let used_up = rule.times.is_some_and(|times| *seen >= rule.skip.saturating_add(times));
            if used_up {
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

    fn moment<'a>(stage: Stage, recipients: &'a [String]) -> Moment<'a> {
        Moment { stage, sender: "a@x.test", recipients, message_id: None, submission_id: None }
    }

    #[test]
    fn a_rule_acts_from_its_skip_on_and_as_often_as_it_says() {
        let mut script = Script::default();
        script.add(Rule::at(Stage::Mail).skip(1).times(2).disconnect());
        let acts: Vec<_> = (0..5).map(|_| script.ask(&moment(Stage::Mail, &[])).act).collect();
        assert_eq!(acts, [Act::Normal, Act::Disconnect, Act::Disconnect, Act::Normal, Act::Normal]);
    }

    #[test]
    fn a_share_is_spread_and_lets_the_next_rule_have_the_rest() {
        let mut script = Script::default();
        script.add(Rule::at(Stage::Mail).share(500, 7).disconnect());
        script.add(Rule::at(Stage::Mail).share(10_000, 7).silence());
        let acts: Vec<_> = (0..10_000).map(|_| script.ask(&moment(Stage::Mail, &[])).act).collect();
        let cut = acts.iter().filter(|act| **act == Act::Disconnect).count();
        assert!((400..600).contains(&cut), "{cut} of 10,000 instead of about 500");
        assert_eq!(acts.iter().filter(|act| **act == Act::Silence).count(), 10_000 - cut);
        let halves = acts[..5_000].iter().filter(|act| **act == Act::Disconnect).count();
        assert!((200..300).contains(&halves), "not spread: {halves} of {cut} in the first half");
    }

    #[test]
    fn recipients_match_by_address_or_by_domain() {
        let mut script = Script::default();
        script.add(Rule::at(Stage::Rcpt).to("Bob@X.test").silence());
        script.add(Rule::at(Stage::Rcpt).to("@y.test").disconnect());
        for (recipient, expected) in [
            ("bob@x.test", Act::Silence),
            ("ann@x.test", Act::Normal),
            ("ann@Y.TEST", Act::Disconnect),
            ("ann@sub.y.test", Act::Normal),
        ] {
            let given = [recipient.to_owned()];
            assert_eq!(script.ask(&moment(Stage::Rcpt, &given)).act, expected, "{recipient}");
        }
    }
}
