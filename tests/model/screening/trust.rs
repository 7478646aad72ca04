//! Trust and content: where a submission says that it comes from and what can be proven of that, content that changes between any two
//! steps, the digest at publication, at a person's approval and at the mail. Leases are [`super::jobs`]'s: one worker here.

mod steps;

use super::search::Protocol;
use super::table::{Actor, State, Track, Trigger};
use super::{S5, S6, S7, S7_PUBLISHED, S8};

/// A rule that is left out, to see which law it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// A ref that the host advertises: a fork's commit answers under the parent's name.
    Advertised,
    /// No redirect is followed.
    NoRedirect,
    /// The owner is compared strictly.
    StrictOwner,
    /// Of `fields` only the backend's column says who submits.
    OriginColumn,
    /// What is proven is trusted only if it is listed.
    Listed,
    /// Content is fetched once, and every tier has that.
    Pin,
    /// Whoever takes over the vendor's job scans on, though its state has passed.
    ScanResumes,
    /// A job's step is written from its own state only.
    StateFence,
    /// Publication compares the digest.
    DigestAtPublish,
    /// The submission is locked between that look and the commit.
    SubjectLock,
    /// A person's approval compares it.
    DigestAtApproval,
    /// The claim's plan compares what it will mail.
    DigestAtMail,
    /// What is mailed is what the claim has read.
    ReadOnce,
    /// Content that changed opens a desk entry.
    ChangedTells,
    /// So does a block in content that was trusted.
    BlockTells,
    /// NEEDS_REVIEW opens one, too.
    ReviewTells,
}

/// What is behind the name that a submission gives. All but the last two name a listed owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Own,
    Fork,
    Redirected,
    LookAlike,
    /// A field says it.
    SelfDeclared,
    Unlisted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Profile {
    Fields,
    Git,
}

/// Content, with what its digest is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Content {
    Good,
    Other,
    /// Tier 1 finds a block in it.
    Bad,
}

/// How far routing is with a submission of `fields`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mail {
    None,
    Read(Content),
    Sent(Content),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    profile: Profile,
    origin: Origin,
    run: Track,
    live: Content,
    /// What the run's first fetch has, and what each tier looked at.
    pinned: Option<Content>,
    tiers: [Option<Content>; 2],
    /// The vendor's job scans on.
    scans_on: bool,
    /// Only without a lock: compared, and not committed.
    compared: Option<Actor>,
    is_dead: bool,
    published: Option<Content>,
    mail: Mail,
    /// Of NEEDS_REVIEW.
    entry: bool,
    /// Entries of their own: a block in trusted content, content that changed.
    told_block: bool,
    told_change: bool,
    changes: u8,
    deaths: u8,
    rescreens: u8,
    redrives: u8,
    is_stale_change: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Fetch,
    Scan,
    Judge(Trigger),
    ScanOn,
    Compare,
    Publish,
    Escalate,
    Approve,
    CommitApproval,
    Reject,
    Rescreen,
    Redrive,
    Read,
    Send,
    Change(Content),
    /// Of the worker that scans on.
    Die,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Trust {
    without: Option<Rule>,
    changes: u8,
}

pub(super) const BASE: Trust = Trust { without: None, changes: 3 };

pub(super) fn each_rule(breaks: impl Fn(Rule, &'static str, Trust)) {
    for (rule, law) in [
        (Rule::Advertised, S8),
        (Rule::NoRedirect, S8),
        (Rule::StrictOwner, S8),
        (Rule::OriginColumn, S8),
        (Rule::Listed, S8),
        (Rule::StateFence, S5),
        (Rule::Pin, S7_PUBLISHED),
        (Rule::DigestAtPublish, S7_PUBLISHED),
        (Rule::DigestAtApproval, S7_PUBLISHED),
        (Rule::SubjectLock, S7_PUBLISHED),
        (Rule::DigestAtMail, S7),
        (Rule::ReadOnce, S7),
        (Rule::ChangedTells, S6),
        (Rule::BlockTells, S6),
        (Rule::ScanResumes, S6),
        (Rule::ReviewTells, S6),
    ] {
        breaks(rule, law, Trust { without: Some(rule), ..BASE });
    }
}

impl World {
    /// What publication hands on: a skill's snapshot, or the row as it is.
    fn handed_on(&self, pins: bool) -> Content {
        match (self.profile, self.pinned) {
            (Profile::Git, Some(pinned)) if pins => pinned,
            (Profile::Git | Profile::Fields, _) => self.live,
        }
    }

    /// Whether this is what was screened: by each tier, or as trusted content when its origin was proven.
    fn was_screened(&self, content: Content) -> bool {
        self.pinned == Some(content) && self.tiers.iter().flatten().all(|seen| *seen == content)
    }

    fn is_vendor(&self) -> bool {
        self.tiers == [None; 2] && matches!(self.run.state, State::VendorApproved | State::Published)
    }

    fn publish(&mut self, trigger: Trigger, by: Actor, pins: bool) {
        let content = self.handed_on(pins);
        if self.run.step(trigger, by) {
            self.published = Some(content);
            self.entry &= by != Actor::Person;
        }
    }

    fn is_ended(&self) -> bool {
        let is_done = match self.run.state {
            State::Tier1Failed | State::Rejected => true,
            State::Published => self.profile == Profile::Git || matches!(self.mail, Mail::Sent(_)),
            State::Received
            | State::VendorApproved
            | State::Tier1Scanning
            | State::Tier2Scanning
            | State::AutoApproved
            | State::NeedsReview
            | State::Tier3Review => false,
        };
        let owes_block = self.is_vendor() && self.pinned == Some(Content::Bad) && !self.told_block;
        (is_done || self.entry || self.told_change) && !owes_block
    }
}

impl Trust {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    /// Whether the origin counts as proven and listed.
    fn is_trusted(self, world: &World) -> bool {
        match world.origin {
            Origin::Own => true,
            Origin::Fork => !self.has(Rule::Advertised),
            Origin::Redirected => !self.has(Rule::NoRedirect),
            Origin::LookAlike => !self.has(Rule::StrictOwner),
            Origin::SelfDeclared => !self.has(Rule::OriginColumn),
            Origin::Unlisted => !self.has(Rule::Listed),
        }
    }

    /// What a tier looks at: what was fetched, or what is there now.
    fn content(self, world: &World) -> Content {
        world.pinned.filter(|_| self.has(Rule::Pin)).unwrap_or(world.live)
    }

    /// The digest that a publication compares with.
    fn is_unchanged(self, world: &World) -> bool {
        Some(world.handed_on(self.has(Rule::Pin))) == world.pinned || !self.has(Rule::Pin)
    }

    fn may_be_mailed(self, world: &World) -> bool {
        world.published == Some(world.live) || !self.has(Rule::DigestAtMail)
    }
}

impl Protocol for Trust {
    fn goes_on(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        match world.run.state {
            State::Received => actions.push(Action::Fetch),
            State::Tier1Scanning => actions.push(Action::Scan),
            State::Tier2Scanning => {
                let answers = [Trigger::Tier2Concerns, Trigger::Tier2Pass, Trigger::Tier2Fail];
                actions.extend(answers.map(Action::Judge));
            }
            State::AutoApproved | State::VendorApproved if world.compared.is_some() => {
                actions.push(Action::Publish);
            }
            State::AutoApproved | State::VendorApproved if !world.is_dead => {
                actions.push(if self.has(Rule::SubjectLock) { Action::Publish } else { Action::Compare });
            }
            State::Tier3Review if world.compared.is_some() => actions.push(Action::CommitApproval),
            State::AutoApproved
            | State::VendorApproved
            | State::Tier1Failed
            | State::NeedsReview
            | State::Tier3Review
            | State::Published
            | State::Rejected => {}
        }
        if world.scans_on {
            actions.push(Action::ScanOn);
        }
        match world.mail {
            // A digest that differs is looked at again by the sweep; it is told of once.
            Mail::None if world.run.state == State::Published && world.profile == Profile::Fields => {
                if !world.told_change || self.may_be_mailed(world) {
                    actions.push(Action::Read);
                }
            }
            Mail::Read(_) => actions.push(Action::Send),
            Mail::None | Mail::Sent(_) => {}
        }
        actions
    }
}
