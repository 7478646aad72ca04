//! The routing of a result to a person. Pure.
//!
//! A person looks where the grader is unsure, where something is wrong with the work, and where nobody has measured this model
//! with this prompt and rubric. A share of what would have gone by itself is looked at all the same: without it, nobody would
//! learn that the sure ones are wrong. The share is drawn by digest: the same result is drawn, or not, whoever asks.

use serde::{Deserialize, Serialize};

use crate::kernel::words;

words! {
    /// How much a person is wanted, from the most.
    Priority {
        /// Before all others.
        Critical = "Critical",
        /// Before most.
        High = "High",
        /// In its turn.
        Medium = "Medium",
    }
}

words! {
    /// Something is wrong with the work: it is looked at first, however sure the grader is.
    Flag {
        /// It speaks to whoever grades.
        Injection = "injection",
        /// It is the task's own text, or a known one.
        CopiedPrompt = "copied_prompt",
        /// It is not in English.
        OtherLanguage = "other_language",
        /// Nobody speaks.
        NoSpeech = "no_speech",
    }
}

/// The lowest confidence of each way, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Nobody looks.
    pub auto: u8,
    /// Nobody has to look; it is marked for an audit.
    pub audit: u8,
    /// A person looks: [`Priority::Medium`].
    pub medium: u8,
    /// A person looks: [`Priority::High`]. Below it, [`Priority::Critical`].
    pub high: u8,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { auto: 90, audit: 85, medium: 70, high: 50 }
    }
}

impl Thresholds {
    /// Whether each is above the next; a configuration's may not be otherwise.
    #[must_use]
    pub const fn are_ordered(&self) -> bool {
        self.auto <= 100 && self.auto > self.audit && self.audit > self.medium && self.medium > self.high
    }
}

/// The grounds of a routing.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// How sure the grader is, 0 to 100.
    pub confidence: u8,
    /// Faults of the work.
    pub flags: &'a [Flag],
    /// This model, with this prompt and rubric, was measured.
    pub calibrated: bool,
    /// The lowest confidence of each way.
    pub thresholds: Thresholds,
    /// Percent of the sure ones that are looked at.
    pub spot_check: u8,
    /// By which these are drawn: of the work, so that a try more draws the same.
    pub digest: &'a [u8; 32],
}

/// The routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routing {
    /// A person looks before the learner does.
    pub required: bool,
    /// How much that person is wanted; exactly where one is.
    pub priority: Option<Priority>,
    /// It is marked for an audit.
    pub audit: bool,
}

impl Routing {
    const fn reviewed(priority: Priority, audit: bool) -> Self {
        Self { required: true, priority: Some(priority), audit }
    }

    /// Routes a result.
    #[must_use]
    pub fn of(asked: &Asked<'_>) -> Self {
        let Asked { confidence, thresholds, .. } = *asked;
        let is_sure = confidence >= thresholds.audit.min(thresholds.auto);
        if !asked.flags.is_empty() {
            Self::reviewed(Priority::Critical, false)
        } else if !is_sure || !asked.calibrated {
            Self::reviewed(priority(confidence, thresholds), false)
        } else if is_drawn(asked.digest, asked.spot_check) {
            Self::reviewed(Priority::Medium, true)
        } else {
            Self { required: false, priority: None, audit: confidence < thresholds.auto }
        }
    }
}

/// How much a person is wanted by confidence alone; at the least [`Priority::Medium`].
const fn priority(confidence: u8, thresholds: Thresholds) -> Priority {
    if confidence >= thresholds.medium {
        Priority::Medium
    } else if confidence >= thresholds.high {
        Priority::High
    } else {
        Priority::Critical
    }
}

/// Whether a digest is among so many percent of all.
#[must_use]
pub fn is_drawn(digest: &[u8; 32], percent: u8) -> bool {
    let first = digest.first_chunk().copied().map_or(0, u64::from_be_bytes);
    first % 10_000 < u64::from(percent) * 100
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// First eight bytes: 9,999 of 10,000; never drawn but by 100 %.
    const LAST: [u8; 32] = number(9_999);

    const fn number(number: u64) -> [u8; 32] {
        let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
        let mut digest = [0xff; 32];
        (digest[0], digest[1], digest[2], digest[3]) = (a, b, c, d);
        (digest[4], digest[5], digest[6], digest[7]) = (e, f, g, h);
        digest
    }

    fn asked(confidence: u8) -> Asked<'static> {
        let thresholds = Thresholds::default();
        Asked { confidence, flags: &[], calibrated: true, thresholds, spot_check: 5, digest: &LAST }
    }

    const TABLE: [(u8, Option<Priority>, bool); 10] = [
        (100, None, false),
        (90, None, false),
        (89, None, true),
        (85, None, true),
        (84, Some(Priority::Medium), false),
        (70, Some(Priority::Medium), false),
        (69, Some(Priority::High), false),
        (50, Some(Priority::High), false),
        (49, Some(Priority::Critical), false),
        (0, Some(Priority::Critical), false),
    ];

    #[test]
    fn confidence_routes_as_tabled() {
        for (confidence, priority, audit) in TABLE {
            let expected = Routing { required: priority.is_some(), priority, audit };
            assert_eq!(Routing::of(&asked(confidence)), expected, "{confidence}");
        }
    }

    #[test]
    fn every_flag_is_critical_however_sure() {
        for flag in Flag::ALL {
            for (confidence, ..) in TABLE {
                let found = Routing::of(&Asked { flags: &[*flag], ..asked(confidence) });
                assert_eq!(found, Routing::reviewed(Priority::Critical, false), "{flag} {confidence}");
            }
        }
    }

    #[test]
    fn what_nobody_has_measured_is_reviewed() {
        for (confidence, priority, _) in TABLE {
            let found = Routing::of(&Asked { calibrated: false, ..asked(confidence) });
            assert_eq!((found.required, found.priority), (true, priority.or(Some(Priority::Medium))));
        }
    }

    #[test]
    fn a_share_of_the_sure_is_checked() {
        for (at, percent, drawn) in [
            (0, 5, true),
            (499, 5, true),
            (500, 5, false),
            (10_499, 5, true),
            (0, 0, false),
            (9_999, 100, true),
        ] {
            assert_eq!(is_drawn(&number(at), percent), drawn, "{at} {percent}");
        }
        let checked = |confidence| Routing::of(&Asked { digest: &number(3), ..asked(confidence) });
        assert_eq!(checked(95), Routing::reviewed(Priority::Medium, true));
        assert_eq!(checked(85), Routing::reviewed(Priority::Medium, true));
        assert_eq!(checked(84), Routing::reviewed(Priority::Medium, false));
        assert_eq!(checked(40), Routing::reviewed(Priority::Critical, false));
    }

    #[test]
    fn thresholds_go_down() {
        assert!(Thresholds::default().are_ordered());
        assert!(!Thresholds { auto: 101, ..Thresholds::default() }.are_ordered());
        assert!(!Thresholds { audit: 90, ..Thresholds::default() }.are_ordered());
        assert!(serde_json::from_str::<Thresholds>(r#"{"low": 1}"#).is_err());
    }

    proptest! {
        #[test]
        fn a_priority_stands_exactly_where_a_person_looks(
            confidence in 0_u8..=100, calibrated: bool, flagged: bool, spot_check in 0_u8..=100, digest: [u8; 32],
        ) {
            let flags: &[Flag] = if flagged { &[Flag::Injection] } else { &[] };
            let found = Routing::of(&Asked { flags, calibrated, spot_check, digest: &digest, ..asked(confidence) });
            prop_assert_eq!(found.required, found.priority.is_some());
            prop_assert!(found.required || (calibrated && !flagged && confidence >= 85));
        }
    }
}
