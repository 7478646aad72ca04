//! P1 to P6, P8 and P10 of the protocol as laws over every reachable world, and what must be reachable at all, so that no law
//! holds for want of an occasion. P2 is in [`super::liveness`]; P7 needs Slack and is not of this model.

use maple_router::routing::submission::ledger::{DeliveryState, FailReason};
use maple_router::routing::table::Status;
use stateright::Property;

use super::product::{self, Shape};
use super::steps::Routing;
use super::world::{DELIVERIES, Outcome, Step, World};

pub(crate) const P1_FACT: &str = "P1: nothing is begun after its fact";
pub(crate) const P1_SPOOL: &str = "P1: nothing is begun by a daemon whose spool has its fact";
pub(crate) const P1_DOUBT: &str =
    "P1: what the relay has twice was in doubt, and under hold a person asked for it";
pub(crate) const P1_UNNOTIFIED: &str =
    "P1: what the relay has twice was sent once by somebody who could not tell";
pub(crate) const P1_TICKET: &str =
    "P1: a ticket that exists twice was being made while its tag was looked for";
pub(crate) const P2: &str = "P2: what has not ended goes on by itself";
pub(crate) const P3: &str = "P3: every end has one audit row";
pub(crate) const P4: &str = "P4: only the holder of a claim ends it";
pub(crate) const P5: &str = "P5: routed means that everything was accepted";
pub(crate) const P5_FAILED: &str = "P5: failed means that something was not accepted in time";
pub(crate) const P6: &str = "P6: nothing is begun unless the attachment is clean";
pub(crate) const P10: &str = "P10: nothing is begun unless the attachment can be seen";
pub(crate) const P8: &str = "P8: attempts have a bound";
pub(crate) const P8_SENT: &str = "P8: what may have been sent costs its attempt";
pub(crate) const P8_REFUND: &str = "P8: attempts run out only when they were made";

pub(crate) fn all() -> Vec<Property<Routing>> {
    let always = Property::<Routing>::always;
    let sometimes = Property::<Routing>::sometimes;
    vec![
        always(P1_FACT, |_, world| !world.witness.intent_after_fact),
        always(P1_SPOOL, |_, world| !world.witness.intent_spooled),
        always(P1_DOUBT, |model, world| {
            let asked = world.left.replays < model.left.replays;
            twice(world).all(|(d, g)| world.witness.doubted[d][g] && (!model.protocol.hold || asked))
        }),
        always(P1_UNNOTIFIED, |_, world| twice(world).all(|(d, _)| world.witness.unnotified[d])),
        always(P1_TICKET, |model, world| {
            model.protocol.shape != Shape::Tickets || twice(world).all(|(d, _)| world.witness.overtaken[d])
        }),
        always(P2, |model, world| world.row.status.is_terminal() || model.has_a_way_on(world)),
        always(P3, |_, world| {
            let ended = u8::from(world.row.status.is_terminal());
            (world.witness.ends, world.witness.audits) == (ended, ended)
        }),
        always(P4, |_, world| !world.witness.stale_change),
        always(P5, |model, world| {
            let sent = |d: usize| world.relay[d][usize::from(world.row.generation[d])] > 0;
            world.row.status != Status::Routed
                || product::is_complete(model.protocol.shape, &world.row) && (0..DELIVERIES).all(sent)
        }),
        always(P5_FAILED, |_, world| {
            let entries = world.row.entries.iter();
            match world.row.finished {
                Some((_, Some(FailReason::Refused | FailReason::Exhausted | FailReason::InDoubt))) => {
                    world.row.plan.is_none()
                        || entries.into_iter().any(|e| e.state == DeliveryState::Failed || e.late)
                }
                Some(_) | None => true,
            }
        }),
        always(P6, |_, world| !world.witness.intent_unclean),
        always(P10, |_, world| !world.witness.intent_hidden),
        always(P8, |model, world| world.row.attempts <= model.protocol.max_attempts),
        always(P8_SENT, |_, world| !world.witness.refunded_sent),
        always(P8_REFUND, |model, world| match world.row.finished {
            Some((_, Some(FailReason::Exhausted | FailReason::NoActions))) => {
                world.witness.tries >= model.protocol.max_attempts
            }
            Some(_) | None => true,
        }),
        sometimes("a submission is routed", |_, world| world.row.status == Status::Routed),
        sometimes("one fails because it was refused", |_, world| ended(world, FailReason::Refused)),
        sometimes("one fails because its attempts are spent", |_, world| ended(world, FailReason::Exhausted)),
        sometimes("one fails because it is infected", |_, world| ended(world, FailReason::Infected)),
        sometimes("a claim is given back because the attachment cannot be seen", |_, world| {
            world.hidden && world.workers.iter().any(|worker| matches!(worker.step, Step::Releasing { .. }))
        }),
        sometimes("one fails because its form has no actions", |_, world| {
            ended(world, FailReason::NoActions)
        }),
        sometimes("a fact comes after the end", |_, world| world.row.entries.iter().any(|e| e.late)),
        sometimes("two workers have a claim of the same submission", |_, world| {
            world.workers.iter().all(|worker| worker.step == Step::AtDot)
        }),
        sometimes("a plan outlives a reload", |_, world| {
            world.row.plan.is_some_and(|plan| plan != world.form) && world.row.status == Status::Routed
        }),
        sometimes("a fact waits in the state directory while the row has ended", |_, world| {
            world.spool.is_some() && world.row.status.is_terminal()
        }),
        sometimes("a fact waits in a state directory while another daemon has a claim", |_, world| {
            let others = |host: u8| {
                (0..2_u8).any(|w| w != host && world.workers[usize::from(w)].step == Step::AtFence)
            };
            world.spool.is_some_and(|spool| others(spool.host))
        }),
        sometimes("a forced replay sends again", |_, world| world.relay.iter().any(|sent| sent[1] > 0)),
        sometimes("an outcome is unknown", |_, world| {
            world.workers.iter().any(|worker| worker.outcomes.contains(&Outcome::Unknown))
        }),
    ]
}

/// Delivery and generation of what the relay accepted more than once.
fn twice(world: &World) -> impl Iterator<Item = (usize, usize)> {
    let copies = world.relay;
    (0..DELIVERIES).flat_map(|d| (0..2).map(move |g| (d, g))).filter(move |(d, g)| copies[*d][*g] > 1)
}

fn ended(world: &World, reason: FailReason) -> bool {
    world.row.finished.is_some_and(|(_, why)| why == Some(reason))
}
