//! Whose turn it is among the open rows: what is in hand, what was answered, what rests, and how far a pass over all of
//! them has come.
//!
//! A row that was answered and is open and unchanged all the same (not ready after all, paused, a ledger of a newer
//! version) rests, longer each time; one that was changed is new, and its own `next_attempt_at` paces it. A pass goes on
//! behind the last row seen, so that rows nobody can claim never keep the others from their turn.
//!
//! Invariant: nothing here does I/O; time and chance are arguments. Memory is bounded however many rows are open: what
//! finds no place to rest is forgotten, and passes are spaced instead.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rand::Rng;
use uuid::Uuid;

use crate::backoff::backoff;
use crate::routing::store::open_rows::{OpenAnswer, OpenQuestion, OpenRow, Place};

/// Longest rest of one row, and between passes where not all of them could be remembered.
const LONGEST: Duration = Duration::from_secs(60);
/// Rows that can rest at once.
const MOST_RESTING: usize = 4096;

/// See the module's header.
#[derive(Debug)]
pub struct Turns {
    /// Rows in hand at once.
    most: usize,
    /// Rows that can rest at once.
    most_resting: usize,
    /// Shortest rest of a row.
    shortest: Duration,
    in_hand: HashMap<Uuid, Turn>,
    /// Answered since the last look; how they stand is asked with the next.
    answered: HashMap<Uuid, Turn>,
    resting: HashMap<Uuid, Rest>,
    /// When the pass began.
    began: Option<Instant>,
    /// How far it has come.
    after: Option<Place>,
    /// A row of this pass found no place to rest.
    crowded: bool,
    /// The next pass does not begin before this.
    not_before: Option<Instant>,
}

/// A row as it was handed out.
#[derive(Debug, Clone, Copy)]
struct Turn {
    touched: Option<Timestamp>,
    /// How often it was handed out before, unchanged.
    before: u32,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    turn: Turn,
    until: Instant,
}

impl Turns {
    /// With up to `most` rows in hand; an unchanged row rests for `shortest` at least.
    #[must_use]
    pub fn new(most: usize, shortest: Duration) -> Self {
        Self {
            most,
            most_resting: MOST_RESTING,
            shortest: shortest.min(LONGEST),
            in_hand: HashMap::new(),
            answered: HashMap::new(),
            resting: HashMap::new(),
            began: None,
            after: None,
            crowded: false,
            not_before: None,
        }
    }

    /// How many more may be taken in hand.
    #[must_use]
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.in_hand.len())
    }

    /// Whether so many may be taken that a look is worth it while there is more to be found.
    #[must_use]
    pub fn is_roomy(&self) -> bool {
        self.room() * 2 >= self.most
    }

    /// What to look for now.
    pub fn question(&mut self, now: Instant) -> OpenQuestion {
        if self.after.is_none() {
            self.began = Some(now);
        }
        let resting = self.resting.iter().filter(|(_, rest)| rest.until > now).map(|(id, _)| id);
        OpenQuestion {
            answered: self.answered.keys().copied().collect(),
            but: self.in_hand.keys().chain(self.answered.keys()).chain(resting).copied().collect(),
            after: self.after,
            most: self.room(),
        }
    }

    /// Takes in what was found: the rows that are in hand from now on, and whether there may be more.
    pub fn take(
        &mut self,
        now: Instant,
        question: &OpenQuestion,
        answer: OpenAnswer,
        chance: &mut impl Rng,
    ) -> (Vec<OpenRow>, bool) {
        for id in &question.answered {
            let Some(turn) = self.answered.remove(id) else { continue };
            if answer.open.get(id) == Some(&turn.touched) {
                self.rest(*id, turn, now, chance);
            }
        }
        let more = answer.rows.len() >= question.most;
        if let Some(last) = answer.rows.last() {
            self.after = last.place();
        }
        let mut rows = answer.rows;
        rows.retain(|row| !self.in_hand.contains_key(&row.id));
        for row in &rows {
            let unchanged = self.resting.remove(&row.id).filter(|rest| rest.turn.touched == row.touched);
            let before = unchanged.map_or(0, |rest| rest.turn.before.saturating_add(1));
            self.in_hand.insert(row.id, Turn { touched: row.touched, before });
        }
        if !more {
            self.turn_over(now);
        }
        (rows, more)
    }

    /// A row in hand was answered, in whatever words: the row itself says what follows.
    pub fn answer(&mut self, id: Uuid) {
        if let Some(turn) = self.in_hand.remove(&id) {
            self.answered.insert(id, turn);
        }
    }

    fn rest(&mut self, id: Uuid, turn: Turn, now: Instant, chance: &mut impl Rng) {
        if self.resting.len() >= self.most_resting {
            self.crowded = true;
            return;
        }
        let pause = backoff(turn.before.saturating_add(1), self.shortest, LONGEST, chance);
        self.resting.insert(id, Rest { turn, until: now + pause });
    }

    /// All that is open was seen: the next look begins anew. Where not everything that should rest is remembered, it
    /// begins anew after a while, and until then only what was changed since is looked for.
    fn turn_over(&mut self, now: Instant) {
        match self.not_before {
            None if self.crowded => self.not_before = Some(now + LONGEST),
            Some(at) if now < at => {}
            None | Some(_) => {
                // Whoever had slept enough before this pass, and was not seen in it, is not open any more.
                let began = self.began.unwrap_or(now);
                self.resting.retain(|_, rest| rest.until >= began);
                self.after = None;
                self.crowded = false;
                self.not_before = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;
    use crate::ops::clock::SystemClock;
    use crate::ports::Clock as _;

    const POLL: Duration = Duration::from_secs(1);

    fn row(n: u64, touched: i64) -> OpenRow {
        let touched = Timestamp::from_second(touched).ok();
        OpenRow { id: Uuid::from_u64_pair(0, n), form_id: "f".to_owned(), touched }
    }

    /// The table that is looked into, and a clock.
    struct World {
        turns: Turns,
        chance: StdRng,
        now: Instant,
        open: Vec<OpenRow>,
    }

    impl World {
        fn new(most: usize, open: Vec<OpenRow>) -> Self {
            let chance = StdRng::seed_from_u64(1);
            Self { turns: Turns::new(most, POLL), chance, now: SystemClock.monotonic(), open }
        }

        /// One look, as the statement makes it; answers the numbers of the rows found.
        fn look(&mut self) -> Vec<u64> {
            let question = self.turns.question(self.now);
            let mut rows = self.open.clone();
            rows.sort_by_key(|row| (row.touched, row.id));
            rows.retain(|row| !question.but.contains(&row.id) && question.after < row.place());
            rows.truncate(question.most);
            let asked = |row: &&OpenRow| question.answered.contains(&row.id);
            let open = self.open.iter().filter(asked).map(|row| (row.id, row.touched)).collect();
            let (found, _) =
                self.turns.take(self.now, &question, OpenAnswer { open, rows }, &mut self.chance);
            found.iter().map(|row| row.id.as_u64_pair().1).collect()
        }

        fn answer(&mut self, n: u64) {
            self.turns.answer(Uuid::from_u64_pair(0, n));
        }

        fn pass(&mut self, pause: Duration) {
            self.now += pause;
        }
    }

    #[test]
    fn what_is_in_hand_comes_once_and_no_more_than_there_is_room_for() {
        let mut world = World::new(3, (0..5).map(|n| row(n, 10 - n.cast_signed())).collect());
        assert_eq!(world.look(), [4, 3, 2], "the oldest first");
        assert_eq!((world.turns.room(), world.turns.is_roomy()), (0, false));
        world.answer(3);
        world.open.retain(|row| row.id.as_u64_pair().1 != 3);
        assert_eq!(world.look(), [1]);
        world.answer(4);
        world.answer(2);
        assert!(world.turns.is_roomy());
        world.open.retain(|row| row.id.as_u64_pair().1 < 2);
        assert_eq!(world.look(), [0], "what is in hand is not found again");
        assert!(world.turns.answered.is_empty() && world.turns.resting.is_empty(), "{:?}", world.turns);
    }

    #[test]
    fn an_answered_row_that_is_open_and_unchanged_rests_longer_each_time() {
        let mut world = World::new(8, vec![row(1, 1)]);
        let mut rests = Vec::new();
        for _ in 0..12 {
            let began = world.now;
            while world.look() != [1] {
                world.pass(Duration::from_millis(100));
            }
            rests.push(world.now - began);
            world.answer(1);
        }
        assert_eq!(rests[0], Duration::ZERO);
        assert!(rests[1] >= POLL && rests[1] <= POLL * 2, "{rests:?}");
        let longest = *rests.iter().max().expect("some");
        assert!(longest > POLL * 8 && longest <= LONGEST + POLL, "{rests:?}");
    }

    #[test]
    fn a_row_that_was_changed_is_new() {
        let mut world = World::new(8, vec![row(1, 1)]);
        for at in 2..6 {
            assert_eq!(world.look(), [1], "given back at {at}: its own due time paces it");
            world.answer(1);
            world.open = vec![row(1, at)];
            assert_eq!(world.look(), [0; 0], "how it stands is asked first");
        }
        assert!(world.turns.resting.is_empty());
    }

    #[test]
    fn what_ended_is_forgotten_with_its_rest() {
        let mut world = World::new(8, vec![row(1, 1), row(2, 2)]);
        assert_eq!(world.look(), [1, 2]);
        world.answer(1);
        world.answer(2);
        assert_eq!(world.look(), [0; 0]);
        assert_eq!(world.turns.resting.len(), 2);
        world.open.retain(|open| open.id == row(2, 2).id);
        world.pass(LONGEST);
        assert_eq!(world.look(), [2]);
        assert_eq!(world.look(), [0; 0]);
        world.open.clear();
        world.answer(2);
        assert_eq!(world.look(), [0; 0]);
        assert!(world.turns.resting.is_empty(), "{:?}", world.turns);
    }

    #[test]
    fn rows_nobody_can_claim_never_keep_others_from_their_turn() {
        // Thirty that are open and unchanged whatever is done, before one that is not; room for two, and for four to rest.
        let mut world = World::new(2, (0..31).map(|n| row(n, n.cast_signed())).collect());
        world.turns.most_resting = 4;
        let (mut looks, mut seen) = (0, Vec::new());
        while !seen.contains(&30) {
            for n in world.look() {
                seen.push(n);
                world.answer(n);
            }
            looks += 1;
            assert!(looks < 40, "{seen:?}");
        }
        assert!(world.turns.resting.len() <= 4);
        // Those that found no place to rest do not come at every look for it; what is new does.
        world.open.push(row(31, 31));
        let mut again = Vec::new();
        for _ in 0..20 {
            world.pass(POLL);
            for n in world.look() {
                again.push(n);
                world.answer(n);
            }
        }
        assert!(again.iter().all(|n| *n >= 30), "{again:?}");
        assert!(again.contains(&31), "{again:?}");
        world.pass(LONGEST);
        let mut next = Vec::new();
        for _ in 0..40 {
            for n in world.look() {
                next.push(n);
                world.answer(n);
            }
        }
        assert!((0..31).all(|n| next.contains(&n)), "everybody's turn comes again: {next:?}");
    }

    #[test]
    fn an_answer_nobody_waits_for_changes_nothing() {
        let mut world = World::new(2, vec![row(1, 1)]);
        world.answer(1);
        assert_eq!(world.look(), [1]);
        world.answer(1);
        world.answer(1);
        assert_eq!(world.turns.answered.len(), 1);
    }

    #[test]
    fn a_row_without_a_time_is_handed_out_and_rests_like_any_other() {
        let mut timeless = row(1, 1);
        timeless.touched = None;
        let mut turns = Turns::new(2, POLL);
        let (now, mut chance) = (SystemClock.monotonic(), StdRng::seed_from_u64(1));
        let question = turns.question(now);
        let answer = OpenAnswer { open: HashMap::new(), rows: vec![timeless.clone()] };
        assert_eq!(turns.take(now, &question, answer, &mut chance).0, [timeless.clone()]);
        turns.answer(timeless.id);
        let question = turns.question(now);
        assert_eq!((question.answered.len(), question.after), (1, None));
        let answer = OpenAnswer { open: [(timeless.id, None)].into(), rows: Vec::new() };
        turns.take(now, &question, answer, &mut chance);
        assert_eq!(turns.resting.len(), 1);
    }
}
