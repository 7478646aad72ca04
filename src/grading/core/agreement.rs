//! How well a grader and people agree: quadratic weighted kappa of bands, mean absolute error of scores, expected calibration error. Pure.

use super::band::Band;
use super::score::Score;

/// Fewest works that say something.
pub const FEWEST: usize = 30;
/// Least kappa, and the largest mean error, with which a grader may grade without a person.
const LEAST_KAPPA: f64 = 0.7;
const LARGEST_ERROR: f64 = 0.75;
/// Bins of confidence.
const BINS: usize = 10;
/// Difference up to which a grader was right, in tenths.
const RIGHT: u8 = 5;

/// A work as a grader and a person have graded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The grader's score, band and confidence.
    pub grader: (Score, Band, u8),
    /// The person's score and band.
    pub person: (Score, Band),
}

/// How well they agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Works that both have graded.
    pub n: usize,
    /// Quadratic weighted kappa of bands, -1 to 1: 1 is agreement, 0 what chance would do.
    pub qwk: f64,
    /// Mean absolute difference of scores.
    pub mae: f64,
    /// Expected calibration error, 0 to 1: how far the confidence is from the share of works in which it was right.
    pub ece: f64,
}

impl Agreement {
    /// Whether such a grader may grade without a person; of so many works.
    #[must_use]
    pub fn suffices(&self, of: usize) -> bool {
        of >= FEWEST && self.n == of && self.qwk >= LEAST_KAPPA && self.mae <= LARGEST_ERROR
    }
}

/// Compares them.
#[must_use]
pub fn agreement(pairs: &[Pair]) -> Agreement {
    let n = pairs.len();
    if n == 0 {
        return Agreement { n, qwk: 0.0, mae: 0.0, ece: 1.0 };
    }
    let apart: u32 = pairs.iter().map(|pair| u32::from(pair.grader.0.apart(pair.person.0).tenths())).sum();
    Agreement { n, qwk: kappa(pairs), mae: f64::from(apart) / 10.0 / count(n), ece: calibration_error(pairs) }
}

fn kappa(pairs: &[Pair]) -> f64 {
    let place = |band: Band| Band::ALL.iter().position(|of| *of == band).unwrap_or_default();
    let weight = |one: usize, other: usize| count(one.abs_diff(other)).powi(2);
    let of_grader = |band: usize| pairs.iter().filter(|pair| place(pair.grader.1) == band).count();
    let of_person = |band: usize| pairs.iter().filter(|pair| place(pair.person.1) == band).count();
    let seen: f64 = pairs.iter().map(|pair| weight(place(pair.grader.1), place(pair.person.1))).sum();
    let bands = Band::ALL.len();
    let by_chance: f64 = (0..bands)
        .flat_map(|one| (0..bands).map(move |other| (one, other)))
        .map(|(one, other)| weight(one, other) * count(of_grader(one)) * count(of_person(other)))
        .sum::<f64>()
        / count(pairs.len());
    // Everybody has the same band: they agree, or there is nothing to agree on.
    if by_chance == 0.0 { 1.0 } else { 1.0 - seen / by_chance }
}

fn calibration_error(pairs: &[Pair]) -> f64 {
    let bin = |confidence: u8| (usize::from(confidence) * BINS / 100).min(BINS - 1);
    let of_bin = |at: usize| {
        let within: Vec<&Pair> = pairs.iter().filter(|pair| bin(pair.grader.2) == at).collect();
        if within.is_empty() {
            return 0.0;
        }
        let right = within.iter().filter(|pair| pair.grader.0.apart(pair.person.0).tenths() <= RIGHT).count();
        let sure: u32 = within.iter().map(|pair| u32::from(pair.grader.2)).sum();
        let n = count(within.len());
        (f64::from(sure) / 100.0 / n - count(right) / n).abs() * n
    };
    (0..BINS).map(of_bin).sum::<f64>() / count(pairs.len())
}

fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grading::core::band::Bands;

    fn pair(grader: u8, confidence: u8, person: u8) -> Pair {
        let of = |tenths| Score::from_tenths(tenths).expect("a score");
        let band = |tenths| Bands::default().of(of(tenths));
        Pair { grader: (of(grader), band(grader), confidence), person: (of(person), band(person)) }
    }

    #[test]
    fn who_agrees_has_one_and_who_contradicts_less_than_chance() {
        let same: Vec<Pair> = [10, 30, 50, 70, 90].into_iter().map(|of| pair(of, 100, of)).collect();
        let found = agreement(&same);
        assert_eq!((found.n, found.qwk, found.mae, found.ece), (5, 1.0, 0.0, 0.0));
        let turned: Vec<Pair> = [10, 30, 70, 90].into_iter().map(|of| pair(of, 100, 100 - of)).collect();
        let found = agreement(&turned);
        assert!(found.qwk < -0.9 && found.mae > 5.0 && found.ece > 0.99, "{found:?}");
        assert!(agreement(&[]).ece > 0.99, "nothing is known");
    }

    /// A table by hand: two of four a band apart.
    #[test]
    fn kappa_is_what_it_is_by_hand() {
        let pairs = [pair(50, 80, 50), pair(50, 80, 70), pair(70, 80, 70), pair(70, 80, 50)];
        let found = agreement(&pairs);
        assert!(found.qwk.abs() < 1e-9, "as by chance: {found:?}");
        assert!((found.mae - 1.0).abs() < 1e-9);
        assert!((found.ece - 0.3).abs() < 1e-9, "sure to 0.8, right in 0.5: {found:?}");
    }

    #[test]
    fn few_works_a_missing_answer_or_a_wide_difference_do_not_suffice() {
        let good: Vec<Pair> = (0..30).map(|at| pair(20 + at * 2, 90, 20 + at * 2)).collect();
        assert!(agreement(&good).suffices(30));
        assert!(!agreement(&good).suffices(31), "one was not answered");
        assert!(!agreement(&good[..29]).suffices(29));
        let far: Vec<Pair> = (0..30).map(|at| pair(20 + at * 2, 90, 30 + at * 2)).collect();
        assert!(!agreement(&far).suffices(30), "{:?}", agreement(&far));
    }
}
