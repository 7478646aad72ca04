//! The bridge to the product: a row of the model as a [`Ledger`], and the product's own decisions on it.
//!
//! No decision is made here. Answers are remembered, because a million worlds ask a few thousand different questions.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use jiff::Timestamp;
use maple_router::config::InDoubt;
use maple_router::ports::Stage;
use maple_router::routing::decide::replay;
use maple_router::routing::decide::replay::{Force, ReplayOptions, ReplayView};
use maple_router::routing::decide::{self, ClaimDecision, RowView, StuckDecision, Verdict};
use maple_router::routing::submission::expand::{self, Expansion};
use maple_router::routing::submission::ledger::{DeliveryState, ErrorClass, FailReason, Ledger, VERSION};
use maple_router::routing::submission::outcome::Entries;
use maple_router::routing::submission::plan::{ActionType, PlannedAction};
use maple_router::routing::submission::screening::Gate;
use maple_router::routing::table::Status;
use serde_json::{Value, json};

use super::world::{Attachment, Entry, Form, GONE, Row, Token};

/// More recipients than any plan has; a help desk, which only the shape of tickets asks for.
const EXPANSION: Expansion = Expansion { max_recipients: 50, tickets: true };

/// Distribution of the two deliveries over actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// One action to two recipients.
    OneAction,
    /// Two actions to one recipient each.
    TwoActions,
    /// Two tickets, whose tags are looked for before they are made again.
    Tickets,
}

/// The verdict on an event (`decide::claim`), without the instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Take,
    Drop,
    Wait,
    Fail(FailReason),
}

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn later() -> Timestamp {
    Timestamp::from_second(10).expect("a timestamp")
}

fn claimed_at() -> Timestamp {
    Timestamp::from_second(-10).expect("a timestamp")
}

fn before() -> Timestamp {
    Timestamp::from_second(-20).expect("a timestamp")
}

impl Shape {
    /// Action of a delivery.
    pub(crate) fn action_of(self, d: usize) -> i32 {
        match self {
            Self::OneAction => 1,
            Self::TwoActions | Self::Tickets => {
                if d == 0 {
                    1
                } else {
                    2
                }
            }
        }
    }

    /// The plan of a form.
    pub(crate) fn plan(self, form: Form) -> Vec<PlannedAction> {
        let (a, b) = match form {
            Form::First => ("a@x.test", "b@x.test"),
            Form::Second => ("c@x.test", "d@x.test"),
            Form::WithoutActions => return Vec::new(),
        };
        let action_type =
            if self == Self::Tickets { ActionType::HappyfoxTemplate } else { ActionType::EmailRaw };
        let action = |action_order: i32, destination: String| PlannedAction {
            action_order,
            action_type,
            template_id: None,
            template: None,
            destination,
            subject_template: None,
            happyfox_category: None,
        };
        match self {
            Self::OneAction => vec![action(1, format!("{a}, {b}"))],
            Self::TwoActions | Self::Tickets => vec![action(1, a.to_owned()), action(2, b.to_owned())],
        }
    }

    /// Keys of a form's deliveries, as the product expands them.
    fn keys(self, form: Form) -> Vec<String> {
        expand::missing_deliveries(&Ledger::default(), &self.plan(form), EXPANSION).keys().cloned().collect()
    }

    /// The ledger that a row stands for.
    pub(crate) fn ledger(self, row: &Row) -> Ledger {
        Ledger::read(&self.stored(row)).expect("a row of the model is well-shaped")
    }

    /// The document that a row stands for.
    fn stored(self, row: &Row) -> Value {
        let mut stored =
            json!({"v": VERSION, "attempts": row.attempts, "resets": row.resets, "deliveries": {}});
        if let Some(token) = row.claim {
            let (at, deadline) = (claimed_at(), later());
            stored["claim"] = json!({"token": name(token), "worker": "w", "at": at, "deadline": deadline});
        }
        if !row.due {
            stored["next_attempt_at"] = json!(later());
        }
        if let Some(form) = row.plan {
            stored["plan"] = json!(self.plan(form));
        }
        if let Some((token, reason)) = row.finished {
            stored["finished"] =
                json!({"token": name(token), "at": NOW, "status": row.status, "reason": reason});
        }
        for (d, generation) in row.generation.iter().enumerate().filter(|(_, generation)| **generation > 0) {
            stored["generations"][self.action_of(d).to_string()] = json!(generation);
        }
        for (key, entry) in
            row.expanded.map(|form| self.keys(form)).unwrap_or_default().iter().zip(row.entries)
        {
            stored["deliveries"][key] = self.entry(row, &entry);
        }
        stored
    }

    fn entry(self, row: &Row, entry: &Entry) -> Value {
        let recorded_since = row.claim == Some(entry.by);
        let mut stored = json!({"state": entry.state, "at": if recorded_since { NOW } else { before() }});
        if entry.state == DeliveryState::Accepted {
            stored["token"] = json!(name(entry.by));
            stored["late"] = json!(entry.late);
        }
        if let Some(token) = entry.intent {
            stored["begun"] = json!({"token": name(token), "at": NOW});
        }
        for (name, value) in [("doubt", entry.doubt), ("doubted", entry.doubted)] {
            if value {
                stored[name] = json!(true);
            }
        }
        if entry.on_hold {
            stored["error"] = json!({"class": ErrorClass::InDoubt, "stage": Stage::Dot, "reply": ""});
        }
        stored
    }

    fn mask(self, form: Option<Form>, keys: &[String]) -> u8 {
        let known = form.map(|form| self.keys(form)).unwrap_or_default();
        (0..known.len()).filter(|d| keys.contains(&known[*d])).map(|d| 1 << d).sum()
    }
}

fn name(token: Token) -> String {
    format!("t{token}")
}

fn remembered<Q: Hash + Eq + Clone, A: Copy>(
    memory: &'static std::thread::LocalKey<RefCell<HashMap<Q, A>>>,
    question: &Q,
    answer: impl FnOnce() -> A,
) -> A {
    if let Some(known) = memory.with_borrow(|memory| memory.get(question).copied()) {
        return known;
    }
    let answer = answer();
    memory.with_borrow_mut(|memory| memory.insert(question.clone(), answer));
    answer
}

/// `decide::claim`.
pub(crate) fn claim(shape: Shape, row: &Row, attachment: Attachment, max_attempts: u32) -> Claim {
    type Question = (Shape, Row, Attachment, u32);
    thread_local!(static KNOWN: RefCell<HashMap<Question, Claim>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, attachment, max_attempts), || {
        let view = RowView {
            status: row.status,
            ledger: &Ok(shape.ledger(row)),
            finalized: true,
            pending: i64::from(attachment == Attachment::Pending),
            infected: attachment == Attachment::Infected,
            gate: Gate::Passed,
            touched: Some(NOW),
            longest_pause: std::time::Duration::from_secs(300),
        };
        match decide::claim(&view, NOW, max_attempts) {
            ClaimDecision::Take => Claim::Take,
            ClaimDecision::Drop(_) => Claim::Drop,
            ClaimDecision::Defer(_) | ClaimDecision::Nack(_) => Claim::Wait,
            ClaimDecision::Fail(reason) => Claim::Fail(reason),
        }
    })
}

/// `decide::verdict_with_refund`.
pub(crate) fn verdict(shape: Shape, row: &Row, max_attempts: u32, refund: bool) -> Verdict {
    thread_local!(static KNOWN: RefCell<HashMap<(Shape, Row, u32, bool), Verdict>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, max_attempts, refund), || {
        decide::verdict_with_refund(&shape.ledger(row), max_attempts, refund)
    })
}

/// `decide::next_action`, of the ledger as a worker knows it.
pub(crate) fn next_action(shape: Shape, row: &Row, tried: u8) -> Option<i32> {
    thread_local!(static KNOWN: RefCell<HashMap<(Shape, Row, u8), Option<i32>>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, tried), || {
        let tried: BTreeSet<i32> = (1..=2).filter(|order| tried >> order & 1 == 1).collect();
        decide::next_action(&shape.ledger(row), &tried)
    })
}

/// `decide::open_deliveries`: what to send, and what to hold.
pub(crate) fn open_deliveries(shape: Shape, row: &Row, order: i32, token: Token, hold: bool) -> (u8, u8) {
    type Question = (Shape, Row, i32, Token, bool);
    thread_local!(static KNOWN: RefCell<HashMap<Question, (u8, u8)>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, order, token, hold), || {
        let policy = if hold { InDoubt::Hold } else { InDoubt::Resend };
        let open = decide::open_deliveries(&shape.ledger(row), order, &name(token), policy);
        (shape.mask(row.expanded, &open.send), shape.mask(row.expanded, &open.hold))
    })
}

/// What of an action is looked for before it is sent: what is in doubt, and what was held and is open again.
pub(crate) fn looked_for(shape: Shape, row: &Row, order: i32, token: Token) -> u8 {
    type Question = (Shape, Row, i32, Token);
    thread_local!(static KNOWN: RefCell<HashMap<Question, u8>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, order, token), || {
        let (ledger, token) = (shape.ledger(row), name(token));
        let wanted =
            ledger.deliveries_of(order).filter(|(_, delivery)| decide::search(delivery, &token).is_some());
        let keys: Vec<String> = wanted.map(|(key, _)| key.to_owned()).collect();
        shape.mask(row.expanded, &keys)
    })
}

/// `expand::missing_deliveries`: whether a claim with this plan puts deliveries into the ledger.
pub(crate) fn lacks_deliveries(shape: Shape, row: &Row, plan: Form) -> bool {
    thread_local!(static KNOWN: RefCell<HashMap<(Shape, Row, Form), bool>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, plan), || {
        !expand::missing_deliveries(&shape.ledger(row), &shape.plan(plan), EXPANSION).is_empty()
    })
}

/// `decide::stuck`. The model's last refund is the product's: so many resets are not walked through.
pub(crate) fn stuck(shape: Shape, row: &Row, infected: bool, max: u32, last_refund: u8) -> StuckDecision {
    type Question = (Shape, Row, bool, u32, u8);
    thread_local!(static KNOWN: RefCell<HashMap<Question, StuckDecision>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, infected, max, last_refund), || {
        let mut ledger = shape.ledger(row);
        ledger.resets += decide::REFUNDED_RESETS - u32::from(last_refund);
        decide::stuck(&Ok(ledger), infected, max)
    })
}

/// `decide::perhaps_sent`: what is in doubt once the claim is taken back.
pub(crate) fn perhaps_sent(shape: Shape, row: &Row) -> u8 {
    thread_local!(static KNOWN: RefCell<HashMap<(Shape, Row), u8>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row), || {
        let ledger = shape.ledger(row);
        let sent: Vec<String> = decide::perhaps_sent(&ledger).map(str::to_owned).collect();
        shape.mask(row.expanded, &sent)
    })
}

/// `replay::replay`: the row as it is open again, or none where it is refused.
pub(crate) fn replayed(shape: Shape, row: &Row, infected: bool, force_action: Option<i32>) -> Option<Row> {
    type Question = (Shape, Row, bool, Option<i32>);
    thread_local!(static KNOWN: RefCell<HashMap<Question, Option<Row>>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row, infected, force_action), || {
        let stored = shape.stored(row);
        let ledger = Ledger::read(&stored);
        let view = ReplayView {
            status: row.status,
            stored: &stored,
            ledger: ledger.as_ref(),
            infected,
            current: None,
            version: None,
            expansion: EXPANSION,
        };
        let options = ReplayOptions { force: force_action.map(Force::Action), replan: false };
        let done = replay::replay(&view, options, before()).ok()?;
        let after = Ledger::read(&done.keys).expect("a replay writes well-shaped keys");
        let mut row =
            Row { attempts: 0, resets: 0, due: true, finished: None, status: Status::Received, ..*row };
        for (key, entry) in
            row.expanded.map(|form| shape.keys(form)).unwrap_or_default().iter().zip(&mut row.entries)
        {
            let open = &after.deliveries[key];
            *entry = Entry {
                state: open.state,
                intent: None,
                by: if open.state == DeliveryState::Accepted { entry.by } else { GONE },
                doubt: open.doubt,
                doubted: open.doubted,
                on_hold: open.error.as_ref().is_some_and(|error| error.class == ErrorClass::InDoubt)
                    && open.state == DeliveryState::Failed,
                late: open.late,
            };
        }
        for (d, generation) in row.generation.iter_mut().enumerate() {
            *generation = (*generation).max(after.generation(shape.action_of(d)).try_into().expect("few"));
        }
        Some(row)
    })
}

/// `Entries::exhausted`: what fails when attempts run out.
pub(crate) fn exhausted(shape: Shape, row: &Row) -> u8 {
    thread_local!(static KNOWN: RefCell<HashMap<(Shape, Row), u8>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row), || {
        let failed: Vec<String> = Entries::exhausted(&shape.ledger(row)).others.keys().cloned().collect();
        shape.mask(row.expanded, &failed)
    })
}

/// P5 as the product's own expansion sees it: every key of every action of the plan has an entry that is accepted.
pub(crate) fn is_complete(shape: Shape, row: &Row) -> bool {
    thread_local!(static KNOWN: RefCell<HashMap<(Shape, Row), bool>> = RefCell::default());
    remembered(&KNOWN, &(shape, *row), || {
        let ledger = shape.ledger(row);
        !ledger.plan.is_empty()
            && ledger.plan.iter().flat_map(|action| expand::keys(action, EXPANSION)).all(|key| {
                ledger.deliveries.get(&key).is_some_and(|delivery| delivery.state == DeliveryState::Accepted)
            })
    })
}
