//! Bands of the common framework, and from which score each begins. Pure.
//!
//! They are set for the mean of four skills: one skill's band is indicative, and every result of ours says so.

use serde::{Deserialize, Serialize};

use super::score::Score;
use crate::kernel::words;

words! {
    /// A band, from the lowest.
    Band {
        /// Below all thresholds.
        A1 = "A1",
        /// Ours: the exam reports nothing below B1.
        A2 = "A2",
        /// The lowest that the exam reports.
        B1 = "B1",
        /// The middle.
        B2 = "B2",
        /// The highest that the exam reports.
        C1 = "C1",
    }
}

/// The lowest score of each band but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bands {
    /// C1.
    pub c1: Score,
    /// B2.
    pub b2: Score,
    /// B1.
    pub b1: Score,
    /// A2.
    pub a2: Score,
}

impl Default for Bands {
    fn default() -> Self {
        const fn score(tenths: u8) -> Score {
            match Score::from_tenths(tenths) {
                Some(score) => score,
                None => Score::MAX,
            }
        }
        Self { c1: score(85), b2: score(60), b1: score(40), a2: score(20) }
    }
}

impl Bands {
    /// The band of a score.
    #[must_use]
    pub fn of(&self, score: Score) -> Band {
        let begun = |(band, least): (Band, Score)| (score >= least).then_some(band);
        [(Band::C1, self.c1), (Band::B2, self.b2), (Band::B1, self.b1), (Band::A2, self.a2)]
            .into_iter()
            .find_map(begun)
            .unwrap_or(Band::A1)
    }

    /// Whether each band begins above the one below it; a configuration's may not.
    #[must_use]
    pub fn are_ordered(&self) -> bool {
        self.c1 > self.b2 && self.b2 > self.b1 && self.b1 > self.a2 && self.a2 > Score::MIN
    }
}

/// Steps from one band to another.
#[must_use]
pub const fn steps(one: Band, other: Band) -> u8 {
    rank(one).abs_diff(rank(other))
}

const fn rank(band: Band) -> u8 {
    match band {
        Band::A1 => 0,
        Band::A2 => 1,
        Band::B1 => 2,
        Band::B2 => 3,
        Band::C1 => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_begins_at_its_threshold() {
        let bands = Bands::default();
        for (tenths, expected) in [
            (0, Band::A1),
            (19, Band::A1),
            (20, Band::A2),
            (39, Band::A2),
            (40, Band::B1),
            (59, Band::B1),
            (60, Band::B2),
            (84, Band::B2),
            (85, Band::C1),
            (100, Band::C1),
        ] {
            assert_eq!(bands.of(Score::from_tenths(tenths).expect("a score")), expected, "{tenths}");
        }
        assert!(bands.are_ordered());
        assert!(!Bands { b2: bands.c1, ..bands }.are_ordered());
        assert!(!Bands { a2: Score::MIN, ..bands }.are_ordered());
    }

    #[test]
    fn steps_count_both_ways() {
        for (at, one) in Band::ALL.iter().enumerate() {
            for (other_at, other) in Band::ALL.iter().enumerate() {
                assert_eq!(usize::from(steps(*one, *other)), at.abs_diff(other_at), "{one} {other}");
                assert_eq!(one < other, at < other_at);
            }
        }
    }

    #[test]
    fn thresholds_of_a_configuration_are_numbers() {
        let bands: Bands = serde_json::from_str(r#"{"c1": 9, "b2": 6.5}"#).expect("bands");
        assert_eq!((bands.c1.tenths(), bands.b2.tenths(), bands.b1), (90, 65, Bands::default().b1));
        assert!(serde_json::from_str::<Bands>(r#"{"c2": 9}"#).is_err());
    }
}
