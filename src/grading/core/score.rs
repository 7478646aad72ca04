//! A score of 0.0 to 10.0, counted in tenths. Pure.
//!
//! Scores are added, halved and compared with bounds: in floats, 7.25 and what was summed up to it round to different sides.
//! Every sum here is one of integers; a float is only what JSON has for a number.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A score, in tenths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u8);

impl Score {
    /// 0.0.
    pub const MIN: Self = Self(0);
    /// 10.0.
    pub const MAX: Self = Self(100);

    /// The score of so many tenths, if it is one.
    #[must_use]
    pub const fn from_tenths(tenths: u8) -> Option<Self> {
        if tenths <= Self::MAX.0 { Some(Self(tenths)) } else { None }
    }

    /// The score of this number, if it is one and a multiple of 0.5: what models and people give.
    #[must_use]
    pub fn of_half(number: f64) -> Option<Self> {
        Self::of_tenth(number).filter(|score| score.is_half())
    }

    /// The score of this number, if it is one and a multiple of 0.1: what keys and documents have.
    #[must_use]
    pub fn of_tenth(number: f64) -> Option<Self> {
        // Of a tenth there is one nearest float, and any reader of "7.3" finds it. The sum makes a zero of a negative one.
        (0..=Self::MAX.0)
            .find(|tenths| (f64::from(*tenths) / 10.0).total_cmp(&(number + 0.0)).is_eq())
            .map(Self)
    }

    /// In tenths.
    #[must_use]
    pub const fn tenths(self) -> u8 {
        self.0
    }

    /// As a number.
    #[must_use]
    pub fn number(self) -> f64 {
        f64::from(self.0) / 10.0
    }

    /// Whether it is a multiple of 0.5.
    #[must_use]
    pub const fn is_half(self) -> bool {
        self.0.is_multiple_of(5)
    }

    /// How far two scores are apart.
    #[must_use]
    pub const fn apart(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }
}

/// So many parts of so many tenths, rounded half up to 0.5.
pub(super) fn to_half(tenths: u64, parts: u64) -> Option<Score> {
    let halves =
        tenths.checked_mul(2)?.checked_add(parts.checked_mul(5)?)?.checked_div(parts.checked_mul(10)?)?;
    Score::from_tenths(u8::try_from(halves.checked_mul(5)?).ok()?)
}

/// Mean, rounded half up to 0.5; of nothing there is none.
#[must_use]
pub fn mean_to_half(scores: &[Score]) -> Option<Score> {
    let sum = scores.iter().map(|score| u64::from(score.0)).sum();
    to_half(sum, u64::try_from(scores.len()).ok()?)
}

/// Median; of an even number the mean of the middle two, rounded half up to 0.5; of nothing there is none.
#[must_use]
pub fn median(scores: &[Score]) -> Option<Score> {
    let mut sorted = scores.to_vec();
    sorted.sort_unstable();
    let upper = sorted.get(sorted.len() / 2).copied()?;
    if sorted.len().is_multiple_of(2) {
        let lower = sorted.get((sorted.len() / 2).checked_sub(1)?).copied()?;
        mean_to_half(&[lower, upper])
    } else {
        Some(upper)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

impl Serialize for Score {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.number())
    }
}

impl<'de> Deserialize<'de> for Score {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        // The number is not repeated: it may be anything.
        Self::of_tenth(number).ok_or_else(|| D::Error::custom("a score is a multiple of 0.1 from 0 to 10"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scores(tenths: &[u8]) -> Vec<Score> {
        tenths.iter().map(|tenths| Score::from_tenths(*tenths).expect("a score")).collect()
    }

    #[test]
    fn numbers_that_are_scores_and_numbers_that_are_none() {
        for (number, half, tenth) in [
            (0.0, Some(0), Some(0)),
            (-0.0, Some(0), Some(0)),
            (7.5, Some(75), Some(75)),
            (10.0, Some(100), Some(100)),
            (7.3, None, Some(73)),
            (0.1 + 0.2, None, None),
            (7.25, None, None),
            (10.5, None, None),
            (-0.5, None, None),
            (f64::NAN, None, None),
            (f64::INFINITY, None, None),
        ] {
            assert_eq!(Score::of_half(number).map(Score::tenths), half, "{number}");
            assert_eq!(Score::of_tenth(number).map(Score::tenths), tenth, "{number}");
        }
        assert_eq!(Score::from_tenths(101), None);
    }

    #[test]
    fn a_mean_is_rounded_half_up_to_a_half() {
        for (of, expected) in [
            (&[70, 70, 75, 75][..], Some(75)), // 7.25
            (&[70, 70, 70, 75], Some(70)),     // 7.125
            (&[75, 75, 75, 80], Some(75)),     // 7.625
            (&[75, 75, 80, 80], Some(80)),     // 7.75
            (&[100, 100], Some(100)),
            (&[0], Some(0)),
            (&[], None),
        ] {
            assert_eq!(mean_to_half(&scores(of)).map(Score::tenths), expected, "{of:?}");
        }
    }

    #[test]
    fn a_median_is_the_middle_or_between_the_middle_two() {
        for (of, expected) in [
            (&[90, 60, 65][..], Some(65)),
            (&[60, 65], Some(65)), // 6.25
            (&[90, 60, 70, 0], Some(65)),
            (&[55], Some(55)),
            (&[], None),
        ] {
            assert_eq!(median(&scores(of)).map(Score::tenths), expected, "{of:?}");
        }
    }

    #[test]
    fn json_has_numbers() {
        let score = Score::of_half(7.5).expect("a score");
        assert_eq!(
            (serde_json::to_string(&score).expect("JSON"), score.to_string()),
            ("7.5".into(), "7.5".into())
        );
        assert_eq!(serde_json::from_str::<Score>("7").expect("a score").to_string(), "7.0");
        for bad in ["\"7.5\"", "7.55", "10.1", "-1", "null", "[7]", "true"] {
            assert!(serde_json::from_str::<Score>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_score_is_read_as_it_was_written(tenths in 0_u8..=100) {
            let score = Score::from_tenths(tenths).expect("a score");
            let json = serde_json::to_string(&score).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Score>(&json).expect("a score"), score);
            prop_assert_eq!(Score::of_tenth(score.number()), Some(score));
            prop_assert_eq!(score.to_string().parse::<f64>().ok().and_then(Score::of_tenth), Some(score));
        }

        #[test]
        fn a_mean_is_a_half_within_a_quarter_of_the_mean(tenths in prop::collection::vec(0_u8..=100, 1..9)) {
            let mean = mean_to_half(&scores(&tenths)).expect("of something");
            let (sum, parts) = (tenths.iter().map(|it| i64::from(*it)).sum::<i64>(), tenths.len() as i64);
            let off = 2 * (i64::from(mean.tenths()) * parts - sum);
            prop_assert!(mean.is_half() && -5 * parts < off && off <= 5 * parts, "half up");
        }
    }
}
