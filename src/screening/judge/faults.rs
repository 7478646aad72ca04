//! Faults of the judge that are one content's, told from an outage: others are answered meanwhile. Pure.

use std::collections::BTreeMap;

use uuid::Uuid;

/// Faults of one run, each with answers to others since the one before, after which a person has it.
const MOST: u32 = 3;
/// Runs that are kept in mind; beyond them all are forgotten, which only costs further questions.
const RUNS: usize = 1_000;

/// What is known of faults.
#[derive(Debug, Default)]
pub struct Faults {
    answers: u64,
    runs: BTreeMap<Uuid, (u64, u32)>,
}

impl Faults {
    /// The judge has answered about a run.
    pub fn answered(&mut self, run: Uuid) {
        self.answers += 1;
        self.runs.remove(&run);
    }

    /// The judge has failed at a run. Returns whether it is the run's doing.
    pub fn failed(&mut self, run: Uuid) -> bool {
        if self.runs.len() >= RUNS && !self.runs.contains_key(&run) {
            self.runs.clear();
        }
        let (answers, counted) = self.runs.entry(run).or_insert((u64::MAX, 0));
        // The first one counts: nobody knows yet.
        if *counted == 0 || self.answers > *answers {
            *counted += 1;
        }
        *answers = self.answers;
        *counted >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_at_which_the_judge_fails_while_it_answers_others_is_told() {
        let (mut faults, bad, good) = (Faults::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        assert!(!faults.failed(bad));
        faults.answered(good);
        assert!(!faults.failed(bad));
        faults.answered(good);
        assert!(faults.failed(bad));
        faults.answered(bad);
        assert!(!faults.failed(bad), "it was answered after all");
    }

    #[test]
    fn an_outage_is_nobodys_doing() {
        let mut faults = Faults::default();
        for turn in 0..100 {
            for run in 0..5 {
                assert!(!faults.failed(Uuid::from_u128(run)), "turn {turn}");
            }
        }
    }

    #[test]
    fn no_more_runs_are_kept_than_fit() {
        let mut faults = Faults::default();
        (0..10_000).for_each(|run| assert!(!faults.failed(Uuid::from_u128(run))));
        assert!(faults.runs.len() <= RUNS);
    }
}
