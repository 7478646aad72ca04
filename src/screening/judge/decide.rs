//! What follows from a judge's answer. Pure.
//!
//! A score near the line is asked for twice and the lower counts: where the second answer cannot be had there is no verdict. A
//! bar keeps any score from approving by itself, and an answer that contradicts itself is one. Nothing here turns the lack of
//! an answer into a decision: that way is `tier2-unavailable`.

use super::verdict::{Score, Severity, Verdict};
use crate::kernel::words;
use crate::screening::run::Bar;

/// Lowest score that approves, and lowest that a person looks at.
pub const APPROVES: u8 = 80;
/// Below it, content is rejected.
pub const CONCERNS: u8 = 60;
/// Scores that are asked for twice.
pub const TWICE: std::ops::RangeInclusive<u8> = 75..=84;

words! {
    /// What follows, and its trigger.
    Decision {
        /// AUTO_APPROVED.
        Approve = "tier2-pass",
        /// NEEDS_REVIEW.
        Concerns = "tier2-concerns",
        /// REJECTED.
        Reject = "tier2-fail",
    }
}

/// A judge's first answer: enough, or one to be asked for again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum First {
    /// It decides.
    Enough(Asked),
    /// Its score is near the line.
    Again(Pending),
}

/// A first answer whose score is near the line: no verdict by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending(Verdict);

/// Answers that decide: one, or both of a question that was asked twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    first: Verdict,
    second: Option<Verdict>,
}

/// A decision and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// What follows.
    pub decision: Decision,
    /// The score that counts.
    pub score: Score,
    /// Every bar that stands, each once, in the order of their declaration.
    pub bars: Vec<Bar>,
}

/// Whether a score is near the line.
#[must_use]
pub fn needs_second(score: Score) -> bool {
    TWICE.contains(&score.get())
}

/// The lower of two scores.
#[must_use]
pub fn lower(one: Score, other: Score) -> Score {
    one.min(other)
}

impl First {
    /// What a first answer is.
    #[must_use]
    pub fn of(verdict: Verdict) -> Self {
        if needs_second(verdict.score) {
            Self::Again(Pending(verdict))
        } else {
            Self::Enough(Asked { first: verdict, second: None })
        }
    }
}

impl Pending {
    /// Both answers.
    #[must_use]
    pub fn with(self, second: Verdict) -> Asked {
        Asked { first: self.0, second: Some(second) }
    }
}

impl Asked {
    /// The score that counts.
    #[must_use]
    pub fn score(&self) -> Score {
        self.second.as_ref().map_or(self.first.score, |second| lower(self.first.score, second.score))
    }

    /// The answers, the one that counts first.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        let (first, second) = (Some(&self.first), self.second.as_ref());
        let is_second = second.is_some_and(|second| second.score < self.first.score);
        let (counting, other) = if is_second { (second, first) } else { (first, second) };
        counting.into_iter().chain(other)
    }
}

/// Decides by score and bars. `calibrated`: this model with this prompt may approve.
#[must_use]
pub fn decide(asked: &Asked, bars: &[Bar], calibrated: bool) -> Decided {
    let score = asked.score();
    let injected = asked.verdicts().any(|verdict| verdict.injection);
    let concerned =
        |verdict: &Verdict| verdict.concerns.iter().any(|concern| concern.severity == Severity::High);
    let contradicts = score.get() >= APPROVES && asked.verdicts().any(concerned);
    let stands = |bar: &Bar| {
        bars.contains(bar)
            || match bar {
                Bar::InjectionMarker => injected,
                Bar::UncalibratedJudge => !calibrated,
                Bar::Contradiction => contradicts,
                Bar::HighPrivilege | Bar::ReviewFinding | Bar::WaivedBlock | Bar::ForceReview => false,
            }
    };
    let bars: Vec<Bar> = Bar::ALL.iter().copied().filter(stands).collect();
    let decision = match score.get() {
        ..CONCERNS => Decision::Reject,
        APPROVES.. if bars.is_empty() => Decision::Approve,
        CONCERNS.. => Decision::Concerns,
    };
    Decided { decision, score, bars }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screening::judge::verdict::{Code, Concern};

    fn scored(score: u8) -> Verdict {
        let score = Score::new(score.into()).expect("a score");
        Verdict { score, concerns: Vec::new(), injection: false }
    }

    fn concerned(score: u8, severity: Severity) -> Verdict {
        let concern = Concern { code: Code::Spam, severity, place: String::new(), note: String::new() };
        Verdict { concerns: vec![concern], ..scored(score) }
    }

    /// Asked as often as it has to be, with the same answer.
    fn asked(verdict: &Verdict) -> Asked {
        match First::of(verdict.clone()) {
            First::Enough(asked) => asked,
            First::Again(pending) => pending.with(verdict.clone()),
        }
    }

    const SCORES: [(u8, Decision, Decision); 9] = [
        (100, Decision::Approve, Decision::Concerns),
        (92, Decision::Approve, Decision::Concerns),
        (85, Decision::Approve, Decision::Concerns),
        (80, Decision::Approve, Decision::Concerns),
        (79, Decision::Concerns, Decision::Concerns),
        (60, Decision::Concerns, Decision::Concerns),
        (59, Decision::Reject, Decision::Reject),
        (1, Decision::Reject, Decision::Reject),
        (0, Decision::Reject, Decision::Reject),
    ];

    #[test]
    fn every_score_with_every_bar_is_as_tabled() {
        for (score, bare, barred) in SCORES {
            let asked = asked(&scored(score));
            let found = decide(&asked, &[], true);
            assert_eq!((found.decision, found.score.get()), (bare, score));
            assert!(found.bars.is_empty());
            for bar in Bar::ALL {
                let found = decide(&asked, &[*bar, *bar], true);
                assert_eq!((found.decision, found.bars), (barred, vec![*bar]), "{score} {bar}");
            }
            let found = decide(&asked, Bar::ALL, false);
            assert_eq!((found.decision, found.bars.as_slice()), (barred, Bar::ALL));
            assert_eq!(decide(&asked, &[], false).decision, barred, "{score} uncalibrated");
        }
    }

    #[test]
    fn an_answer_can_bar_itself() {
        let injected = Verdict { injection: true, ..scored(100) };
        let found = decide(&asked(&injected), &[], true);
        assert_eq!((found.decision, found.bars), (Decision::Concerns, vec![Bar::InjectionMarker]));
        for (score, severity, expected) in [
            (92, Severity::High, Some(Bar::Contradiction)),
            (80, Severity::High, Some(Bar::Contradiction)),
            (79, Severity::High, None),
            (92, Severity::Medium, None),
            (92, Severity::Low, None),
        ] {
            let found = decide(&asked(&concerned(score, severity)), &[], true);
            assert_eq!(found.bars.first().copied(), expected, "{score} {severity}");
            assert_eq!(found.decision == Decision::Approve, score >= 80 && expected.is_none());
        }
    }

    #[test]
    fn near_the_line_one_answer_is_no_verdict() {
        for score in 0..=100 {
            let again = matches!(First::of(scored(score)), First::Again(_));
            assert_eq!(again, (75..=84).contains(&score), "{score}");
        }
        for (one, other, expected) in [
            (84, 92, Decision::Approve),
            (84, 80, Decision::Approve),
            (84, 79, Decision::Concerns),
            (75, 100, Decision::Concerns),
            (84, 60, Decision::Concerns),
            (84, 59, Decision::Reject),
            (82, 0, Decision::Reject),
        ] {
            let First::Again(pending) = First::of(scored(one)) else { panic!("{one} is near the line") };
            let asked = pending.with(scored(other));
            let found = decide(&asked, &[], true);
            assert_eq!((found.decision, found.score.get()), (expected, one.min(other)), "{one} {other}");
            let counts: Vec<u8> = asked.verdicts().map(|verdict| verdict.score.get()).collect();
            assert_eq!(counts, [one.min(other), one.max(other)]);
        }
    }

    #[test]
    fn either_of_two_answers_can_bar() {
        for (first, second) in
            [(scored(84), concerned(90, Severity::High)), (concerned(84, Severity::High), scored(90))]
        {
            let First::Again(pending) = First::of(first) else { panic!("near the line") };
            assert_eq!(decide(&pending.with(second), &[], true).bars, [Bar::Contradiction]);
        }
        let First::Again(pending) = First::of(scored(84)) else { panic!("near the line") };
        let second = Verdict { injection: true, ..scored(100) };
        assert_eq!(decide(&pending.with(second), &[], true).decision, Decision::Concerns);
    }
}
