//! The named points between two commits or network steps, and what they mean for the mails of a submission whose worker
//! ends there.
//!
//! The form has two actions: the first to `a` and `b`, the second to `c`. A mail is sent twice only where its worker died
//! after the relay had taken it and before the fact was committed (P1); that it is *exactly* twice there shows that the
//! table is about the points it names.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use devkit::postgres::Trap;
use devkit::smtp::{Rule, Stage as At};
use devkit::stage::{SUBSCRIPTION, Source};
use devkit::submission::Row;
use devkit::trap::{Fate, Trapped};
use futures::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{PATIENCE, Scene};

/// Points at which a router is caught.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// On its wire to the database, at the n-th transaction of that name.
    Wire(Trap, u64),
    /// A stage of its dialogue with the relay, after so many such stages.
    Relay(At, u64),
    /// The ack has arrived at the broker and does not count yet.
    Ack,
}

/// One point, and what follows from an end there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
    /// Fate of the step under way when the worker is gone: it arrives, or it is lost.
    pub(crate) fate: Fate,
    /// Mails at the relay in the end: for `a` and `b`, for `c`.
    pub(crate) copies: (u64, u64),
    /// Deliveries that were in doubt: those of `a` and `b`, that of `c`.
    pub(crate) doubted: (bool, bool),
    /// Attempts in the end: 1 where the lost claim had started nothing, or had finished.
    pub(crate) attempts: u64,
}

const fn point(
    name: &'static str,
    place: Place,
    fate: Fate,
    copies: (u64, u64),
    doubted: (bool, bool),
    attempts: u64,
) -> Point {
    Point { name, place, fate, copies, doubted, attempts }
}

const NO_DOUBT: (bool, bool) = (false, false);
const FIRST: (bool, bool) = (true, false);
const SECOND: (bool, bool) = (false, true);
const ONCE: (u64, u64) = (1, 1);

/// Every point at which a process can die, with a broker.
const KILL: &[Point] = {
    use Fate::{Cut, Release};
    use Place::{Ack, Relay, Wire};
    use Trap::{BeginSent, CommitAnswered, CommitSent};
    &[
        point("claim not committed", Wire(CommitSent("claim"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("claim committed after the end", Wire(CommitSent("claim"), 1), Release, ONCE, NO_DOUBT, 1),
        point("claim committed", Wire(CommitAnswered("claim"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("about to begin", Wire(BeginSent("begin"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("begin not committed", Wire(CommitSent("begin"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("begun", Wire(CommitAnswered("begin"), 1), Cut, ONCE, FIRST, 2),
        point("connected", Relay(At::Banner, 0), Cut, ONCE, FIRST, 2),
        point("EHLO", Relay(At::Ehlo, 0), Cut, ONCE, FIRST, 2),
        point("MAIL", Relay(At::Mail, 0), Cut, ONCE, FIRST, 2),
        point("first RCPT", Relay(At::Rcpt, 0), Cut, ONCE, FIRST, 2),
        point("second RCPT", Relay(At::Rcpt, 1), Cut, ONCE, FIRST, 2),
        point("DATA", Relay(At::Data, 0), Cut, ONCE, FIRST, 2),
        point("message under way, lost", Relay(At::Body, 0), Cut, ONCE, FIRST, 2),
        point("final dot written, lost", Relay(At::Dot, 0), Cut, ONCE, FIRST, 2),
        point("final dot written, stored after the end", Relay(At::Dot, 0), Release, (2, 1), FIRST, 2),
        point("stored, 250 not written", Relay(At::AfterDot, 0), Cut, (2, 1), FIRST, 2),
        point("250 read", Wire(BeginSent("record"), 1), Cut, (2, 1), FIRST, 2),
        point("fact not committed", Wire(CommitSent("record"), 1), Cut, (2, 1), FIRST, 2),
        // With the outcomes of the first mail the second one's intent is recorded.
        point("fact committed after the end", Wire(CommitSent("record"), 1), Release, ONCE, SECOND, 2),
        point("fact committed", Wire(CommitAnswered("record"), 1), Cut, ONCE, SECOND, 2),
        point("second action's RCPT", Relay(At::Rcpt, 2), Cut, ONCE, SECOND, 2),
        point("second action stored", Relay(At::AfterDot, 1), Cut, (1, 2), SECOND, 2),
        point("finish not committed", Wire(CommitSent("record"), 2), Cut, (1, 2), SECOND, 2),
        point("finish committed", Wire(CommitAnswered("record"), 2), Cut, ONCE, NO_DOUBT, 1),
        point("ack lost", Ack, Cut, ONCE, NO_DOUBT, 1),
        point("acked", Ack, Release, ONCE, NO_DOUBT, 1),
    ]
};

/// The points that only the outbox has, which replaces the broker: between its claim, the routing's commits and its
/// confirmation.
const OUTBOX: &[Point] = {
    use Fate::{Cut, Release};
    use Place::Wire;
    use Trap::{CommitAnswered, CommitSent, TakenAnswered, TakenSent};
    &[
        point("event not taken", Wire(TakenSent("outbox_claim"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("event taken after the end", Wire(TakenSent("outbox_claim"), 1), Release, ONCE, NO_DOUBT, 1),
        point("event taken", Wire(TakenAnswered("outbox_claim"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("settlement lost", Wire(CommitSent("outbox_settle"), 1), Cut, ONCE, NO_DOUBT, 1),
        point("marked after the end", Wire(CommitSent("outbox_settle"), 1), Release, ONCE, NO_DOUBT, 1),
        point("marked", Wire(CommitAnswered("outbox_settle"), 1), Cut, ONCE, NO_DOUBT, 1),
    ]
};

/// Every point at which a process can die that gets its events from there.
pub(crate) fn points(source: Source) -> Vec<Point> {
    match source {
        Source::Pubsub => KILL.to_vec(),
        Source::Postgres => {
            let ours = KILL.iter().filter(|point| !matches!(point.place, Place::Ack));
            ours.chain(OUTBOX).copied().collect()
        }
    }
}

/// Shorter than any of the routers' timers: a router caught for longer may have gone on by itself, to another point.
const AT_THE_POINT: Duration = Duration::from_millis(1400);
/// Most tries of a point before the machine is too slow for it.
pub(crate) const TRIES: usize = 10;

/// The machine was too busy: the planned event came after the point was over, or another router was at it. Nothing
/// follows about the router.
#[derive(Debug)]
pub(crate) struct TooLate(Duration);

/// Called when what was to happen to the caught router has happened.
pub(crate) fn in_time(trapped: &Trapped) -> Result<(), TooLate> {
    let caught = trapped.caught_for();
    if caught < AT_THE_POINT { Ok(()) } else { Err(TooLate(caught)) }
}

/// A router that is caught at a point.
pub(crate) struct Caught {
    /// Index among the scene's daemons.
    pub(crate) who: usize,
    /// The trap it is caught in, until it is released or cut.
    pub(crate) trapped: Trapped,
    /// The submission he carries.
    pub(crate) id: Uuid,
}

impl Point {
    /// Sets the trap before every router, submits, and waits for the first to step into it.
    pub(crate) async fn catch(&self, scene: &Scene) -> Caught {
        match self.place {
            Place::Wire(trap, nth) => {
                let mut traps: Vec<Trapped> =
                    scene.daemons.iter().map(|daemon| daemon.wire.trap(trap, nth)).collect();
                let id = scene.submit().await;
                let somebody = async || traps.iter().any(Trapped::is_hit);
                scene.until(self.name, somebody).await;
                let who = traps.iter().position(Trapped::is_hit).expect("somebody");
                // The others hold nobody: they are dropped with the vector.
                Caught { who, trapped: traps.swap_remove(who), id }
            }
            Place::Relay(stage, skip) => {
                let trapped = scene.stage.relay.trap(Rule::at(stage).skip(skip));
                self.caught(scene, trapped).await
            }
            Place::Ack => self.caught(scene, scene.stage.broker.trap_ack(SUBSCRIPTION, 1)).await,
        }
    }

    /// Whether a committed beginning or record has written its row: one that finds the row locked (a heartbeat, another
    /// router's look) commits without it, and writes it alone afterwards, at a point of its own. What is counted after such
    /// a one is counted one too early: before the second action has begun, no record is the second action's. Nor is a point met
    /// where the first mail took so long that the relay was taken for a slow one: the second one's intent is apart then.
    pub(crate) fn is_met(&self, row: &Row, trapped: &Trapped) -> Result<(), TooLate> {
        let begun = |key: &str| !row.entry(key)["begun"].is_null();
        let written = match self.place {
            Place::Wire(Trap::CommitAnswered("begin"), _) => begun("1|a@x.test"),
            Place::Wire(Trap::CommitAnswered("record"), 1) => {
                row.entry("1|a@x.test")["state"] == "accepted" && begun("2|c@x.test")
            }
            Place::Wire(Trap::CommitAnswered("record"), _) => row.status == "routed",
            Place::Wire(Trap::CommitSent("record"), 2) => begun("2|c@x.test"),
            Place::Wire(..) | Place::Relay(..) | Place::Ack => true,
        };
        if written { Ok(()) } else { Err(TooLate(trapped.caught_for())) }
    }

    /// The same of a record that arrives after its sender's end: what it wrote shows only then.
    pub(crate) async fn has_arrived(&self, scene: &Scene, id: Uuid) -> Result<(), TooLate> {
        if !matches!((self.place, self.fate), (Place::Wire(Trap::CommitSent("record"), 1), Fate::Release)) {
            return Ok(());
        }
        scene.until(self.name, async || scene.row(id).await.entry("1|a@x.test")["state"] == "accepted").await;
        let second = scene.row(id).await.entry("2|c@x.test").clone();
        let is_intended = !second["begun"].is_null() || second["doubt"] == true;
        if is_intended { Ok(()) } else { Err(TooLate(Duration::ZERO)) }
    }

    async fn caught(&self, scene: &Scene, trapped: Trapped) -> Caught {
        let id = scene.submit().await;
        if let Err(nobody) = trapped.hit(PATIENCE).await {
            panic!("{}: {nobody}\n{}", self.name, scene.logs());
        }
        Caught { who: scene.holder(id), trapped, id }
    }
}

/// Plays every point, some side by side because they mostly wait; names all that failed. A point met too late is
/// played again. `KILL_POINT` chooses one.
pub(crate) async fn play<Playing>(
    points: impl Iterator<Item = Point>,
    side_by_side: usize,
    play: impl Fn(Point) -> Playing,
) where
    Playing: Future<Output = Result<(), TooLate>>,
{
    let only = std::env::var("KILL_POINT").ok();
    let wanted = points.filter(|point| only.as_deref().is_none_or(|name| point.name == name));
    let failed: Vec<&str> = futures::stream::iter(wanted)
        .map(async |point| {
            for _ in 0..TRIES {
                // A panic ends this point only: the others tell as much.
                match AssertUnwindSafe(play(point)).catch_unwind().await {
                    Ok(Ok(())) => return None,
                    Ok(Err(TooLate(caught))) => {
                        println!("{}: met after {caught:?}, too late: once more", point.name);
                    }
                    Err(_) => break,
                }
            }
            Some(point.name)
        })
        .buffer_unordered(side_by_side)
        .filter_map(async |failed| failed)
        .collect()
        .await;
    assert!(failed.is_empty(), "failed at: {failed:?}; why is printed above");
}

/// Ends the caught step.
pub(crate) fn meet(trapped: Trapped, fate: Fate) {
    match fate {
        Fate::Release => trapped.release(),
        Fate::Cut => trapped.cut(),
    }
}

/// Checks the relay's mails, and that the ledger explains them.
pub(crate) async fn mails_are_as_expected(scene: &Scene, id: Uuid, point: &Point) {
    let row = scene.row(id).await;
    let context = || format!("{} (routers: {}): {row:?}\n{}", point.name, scene.daemons.len(), scene.logs());
    let (first, second) = point.copies;
    let expected = [("a@x.test", first), ("b@x.test", first), ("c@x.test", second)];
    let expected = expected.map(|(recipient, copies)| (recipient.to_owned(), copies)).into_iter().collect();
    assert_eq!(scene.copies(id), expected, "{}", context());
    let (first, second) = point.doubted;
    for (key, doubted) in [("1|a@x.test", first), ("1|b@x.test", first), ("2|c@x.test", second)] {
        assert_eq!(row.entry(key)["doubted"] == Value::Bool(true), doubted, "{key}: {}", context());
    }
    assert_eq!(row.attempts(), point.attempts, "{}", context());
}
