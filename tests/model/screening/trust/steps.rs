//! The steps and laws of [`super`].

use stateright::{Model, Property};

use super::super::search::Protocol;
use super::super::table::{Actor, State, Track, Trigger};
use super::super::{S1, S4, S5, S6, S7, S7_PUBLISHED, S8};
use super::{Action, Content, Mail, Origin, Profile, Rule, Trust, World};

impl Model for Trust {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let world = |profile, origin, live| World {
            profile,
            origin,
            run: Track::BORN,
            live,
            pinned: None,
            tiers: [None; 2],
            scans_on: false,
            compared: None,
            is_dead: false,
            published: None,
            mail: Mail::None,
            entry: false,
            told_block: false,
            told_change: false,
            changes: self.changes,
            deaths: 1,
            rescreens: 1,
            redrives: 1,
            is_stale_change: false,
        };
        let git = [Origin::Own, Origin::Fork, Origin::Redirected, Origin::LookAlike, Origin::Unlisted]
            .map(|origin| (Profile::Git, origin));
        let fields =
            [Origin::Own, Origin::SelfDeclared, Origin::Unlisted].map(|origin| (Profile::Fields, origin));
        let of = |(profile, origin)| [Content::Good, Content::Bad].map(|live| world(profile, origin, live));
        git.into_iter().chain(fields).flat_map(of).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions.extend(self.goes_on(world));
        match world.run.state {
            State::NeedsReview => actions.extend([Action::Escalate, Action::Reject]),
            State::Tier3Review => actions.extend([Action::Approve, Action::Reject]),
            State::Received
            | State::VendorApproved
            | State::Tier1Scanning
            | State::Tier1Failed
            | State::Tier2Scanning
            | State::AutoApproved
            | State::Published
            | State::Rejected => {}
        }
        if world.rescreens > 0 && matches!(world.mail, Mail::None) {
            actions.push(Action::Rescreen);
        }
        if world.is_dead && world.redrives > 0 {
            actions.push(Action::Redrive);
        }
        if world.scans_on && world.deaths > 0 {
            actions.push(Action::Die);
        }
        if world.changes > 0 {
            let others = [Content::Good, Content::Other, Content::Bad].into_iter();
            actions.extend(others.filter(|other| *other != world.live).map(Action::Change));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = *last;
        let pins = self.has(Rule::Pin);
        match action {
            Action::Fetch => {
                world.pinned = Some(world.live);
                let is_trusted = self.is_trusted(last);
                let trigger =
                    if is_trusted { Trigger::VendorAutoVerify } else { Trigger::NonVendorSubmission };
                world.run.step(trigger, Actor::Screener);
                world.scans_on = is_trusted;
            }
            Action::Scan => {
                let content = self.content(last);
                world.tiers[0] = Some(content);
                let trigger = if content == Content::Bad { Trigger::Tier1Fail } else { Trigger::Tier1Pass };
                world.run.step(trigger, Actor::Screener);
            }
            Action::Judge(trigger) => {
                world.tiers[1] = Some(self.content(last));
                world.run.step(trigger, Actor::Screener);
                world.entry |= trigger == Trigger::Tier2Concerns && self.has(Rule::ReviewTells);
            }
            Action::ScanOn => {
                world.scans_on = false;
                let is_bad = self.content(last) == Content::Bad;
                if !self.has(Rule::StateFence) {
                    // As if it were any submission's.
                    let to = if is_bad { State::Tier1Failed } else { State::Tier2Scanning };
                    world.run.force(to);
                    world.run.events += 1;
                    world.is_stale_change = true;
                }
                world.told_block |= is_bad && self.has(Rule::BlockTells);
            }
            Action::Compare => {
                if self.is_unchanged(last) || !self.has(Rule::DigestAtPublish) {
                    world.compared = Some(Actor::Screener);
                } else {
                    self.set_aside(&mut world);
                }
            }
            Action::Publish => {
                let goes =
                    world.compared.is_some() || self.is_unchanged(last) || !self.has(Rule::DigestAtPublish);
                world.compared = None;
                if goes {
                    world.publish(Trigger::PublishComplete, Actor::Screener, pins);
                } else {
                    self.set_aside(&mut world);
                }
            }
            Action::Escalate => {
                world.run.step(Trigger::AdminEscalate, Actor::Person);
            }
            Action::Approve => {
                if !self.is_unchanged(last) && self.has(Rule::DigestAtApproval) {
                    return None;
                }
                if self.has(Rule::SubjectLock) {
                    world.publish(Trigger::ReviewerApprove, Actor::Person, pins);
                } else {
                    world.compared = Some(Actor::Person);
                }
            }
            Action::CommitApproval => {
                world.compared = None;
                world.publish(Trigger::ReviewerApprove, Actor::Person, pins);
            }
            Action::Reject => {
                let is_review = world.run.state == State::NeedsReview;
                let trigger = if is_review { Trigger::AdminReject } else { Trigger::ReviewerReject };
                world.run.step(trigger, Actor::Person);
                world.entry = false;
                world.compared = None;
            }
            Action::Rescreen => {
                world.rescreens -= 1;
                world.run = Track::BORN;
                (world.pinned, world.tiers, world.published) = (None, [None; 2], None);
                (world.scans_on, world.is_dead, world.compared) = (false, false, None);
                (world.entry, world.told_block, world.told_change) = (false, false, false);
            }
            Action::Redrive => {
                world.redrives -= 1;
                (world.is_dead, world.told_change) = (false, false);
            }
            Action::Read if self.may_be_mailed(last) => world.mail = Mail::Read(world.live),
            Action::Read => world.told_change |= self.has(Rule::ChangedTells),
            Action::Send => {
                let Mail::Read(read) = world.mail else { return None };
                world.mail = Mail::Sent(if self.has(Rule::ReadOnce) { read } else { world.live });
            }
            Action::Die => {
                world.deaths -= 1;
                world.scans_on = self.has(Rule::ScanResumes);
            }
            Action::Change(to) => {
                world.changes -= 1;
                world.live = to;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(S1, |_, world: &World| world.run.is_lawfully_published()),
            Property::always(S4, |_, world: &World| world.run.moves == world.run.events),
            Property::always(S5, |_, world: &World| !world.is_stale_change),
            Property::always(S6, |model: &Self, world: &World| {
                world.is_ended() || !model.goes_on(world).is_empty()
            }),
            Property::always(S7, |_, world: &World| match world.mail {
                Mail::Sent(sent) => world.was_screened(sent),
                Mail::None | Mail::Read(_) => true,
            }),
            Property::always(S7_PUBLISHED, |_, world: &World| {
                world.published.is_none_or(|content| world.was_screened(content))
            }),
            Property::always(S8, |_, world: &World| !world.is_vendor() || world.origin == Origin::Own),
            Property::sometimes(
                "content that changed is set aside, and rescreened to its mail",
                |_, world: &World| {
                    world.rescreens == 0
                        && world.changes == 0
                        && matches!(world.mail, Mail::Sent(Content::Other))
                },
            ),
            Property::sometimes("trusted content has a block, and was published", |_, world: &World| {
                world.told_block && world.run.state == State::Published
            }),
            Property::sometimes(
                "content changes after its publication, and is told of",
                |_, world: &World| {
                    world.told_change
                        && world.run.state == State::Published
                        && world.published != Some(world.live)
                },
            ),
            Property::sometimes(
                "a person approves what has changed and is again what was screened",
                |_, world: &World| {
                    world.run.state == State::Published && world.run.moves == 6 && world.changes < 2
                },
            ),
        ]
    }
}

impl Trust {
    /// Dead letter `content_changed`.
    fn set_aside(self, world: &mut World) {
        world.is_dead = true;
        world.told_change |= self.has(Rule::ChangedTells);
    }
}
