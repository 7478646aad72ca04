//! Tokens that may be spent in a day, and by one form of it. Pure.
//!
//! What is spent is counted by the caller, from the answers' own words and, where they say nothing, by the estimate.

use super::prompt::ANSWER_TOKENS;
use crate::config::ScreeningJudge;
use crate::kernel::words;

/// Bytes of a token, at least: most texts have four, those of scripts with three bytes a letter have three.
const BYTES_OF_A_TOKEN: u64 = 3;

words! {
    /// A bound that is reached.
    Bound {
        /// All forms' of this day.
        Day = "day",
        /// This form's of this day.
        Form = "form",
    }
}

/// Tokens that may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// In a day, by all forms.
    pub day: u64,
    /// In a day, by one form.
    pub form: u64,
}

/// Tokens that were spent, the estimates of what is on its way included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Today, by all forms.
    pub day: u64,
    /// Today, by this form.
    pub form: u64,
}

/// A question that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the judge's tokens of this {bound} are spent; see [screening.judge]")]
pub struct Exhausted {
    /// The bound; the day's where both are reached.
    pub bound: Bound,
}

/// Tokens of a question, both messages of so many bytes, and of its answer. Never too few for texts of real languages.
#[must_use]
pub fn estimate(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_OF_A_TOKEN) + u64::from(ANSWER_TOKENS)
}

impl Budget {
    /// The budget as configured.
    #[must_use]
    pub fn of(config: &ScreeningJudge) -> Self {
        Self { day: config.tokens_per_day, form: config.tokens_per_form }
    }

    /// Whether a question of this estimate may be asked.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn may(self, estimate: u64, spent: Spent) -> Result<(), Exhausted> {
        let fits = |spent: u64, most: u64| spent.checked_add(estimate).is_some_and(|sum| sum <= most);
        match (fits(spent.day, self.day), fits(spent.form, self.form)) {
            (true, true) => Ok(()),
            (false, _) => Err(Exhausted { bound: Bound::Day }),
            (true, false) => Err(Exhausted { bound: Bound::Form }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_fits_or_names_the_bound() {
        let budget = Budget { day: 1000, form: 300 };
        let (day, form) = (Err(Exhausted { bound: Bound::Day }), Err(Exhausted { bound: Bound::Form }));
        for (estimate, spent, expected) in [
            (300, (0, 0), Ok(())),
            (301, (0, 0), form),
            (100, (900, 200), Ok(())),
            (101, (900, 0), day),
            (101, (900, 250), day),
            (101, (800, 250), form),
            (1, (1000, 0), day),
            (0, (1000, 300), Ok(())),
            (u64::MAX, (1, 0), day),
            (1, (u64::MAX, 0), day),
        ] {
            let spent = Spent { day: spent.0, form: spent.1 };
            assert_eq!(budget.may(estimate, spent), expected, "{estimate} {spent:?}");
        }
    }

    #[test]
    fn an_estimate_has_the_answer_in_it() {
        assert_eq!(estimate(0), u64::from(ANSWER_TOKENS));
        assert_eq!(estimate(7), 3 + u64::from(ANSWER_TOKENS));
    }
}
