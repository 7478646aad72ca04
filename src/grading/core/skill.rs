//! Skills, tasks, and the criteria of each skill. Pure.

use crate::kernel::words;

words! {
    /// A skill.
    Skill {
        /// A text is judged.
        Writing = "writing",
        /// A recording is transcribed, and judged.
        Speaking = "speaking",
        /// Answers are compared with a key.
        Listening = "listening",
        /// Answers are compared with a key.
        Reading = "reading",
    }
}

words! {
    /// The task of a text.
    Task {
        /// A letter: greeting, closing, some 120 words.
        Email = "email",
        /// Paragraphs, some 250 words.
        Essay = "essay",
    }
}

words! {
    /// The criteria of a work.
    Criterion {
        /// Writing: whether it does what was asked.
        TaskAchievement = "task_achievement",
        /// Writing: whether it hangs together.
        CoherenceCohesion = "coherence_cohesion",
        /// Writing: its words.
        LexicalResource = "lexical_resource",
        /// Writing: its sentences.
        GrammaticalRange = "grammatical_range",
        /// Speaking: pace and pauses.
        Fluency = "fluency",
        /// Speaking: sounds; no transcript has them.
        Pronunciation = "pronunciation",
        /// Speaking: what is said.
        Content = "content",
        /// Speaking: its words.
        Vocabulary = "vocabulary",
    }
}

impl Skill {
    /// Criteria of the skill, in the order of a result; none where a key decides.
    #[must_use]
    pub const fn criteria(self) -> &'static [Criterion] {
        match self {
            Self::Writing => &[
                Criterion::TaskAchievement,
                Criterion::CoherenceCohesion,
                Criterion::LexicalResource,
                Criterion::GrammaticalRange,
            ],
            Self::Speaking => {
                &[Criterion::Fluency, Criterion::Pronunciation, Criterion::Content, Criterion::Vocabulary]
            }
            Self::Listening | Self::Reading => &[],
        }
    }

    /// Whether a key decides, and no model.
    #[must_use]
    pub const fn is_keyed(self) -> bool {
        match self {
            Self::Writing | Self::Speaking => false,
            Self::Listening | Self::Reading => true,
        }
    }
}

impl Task {
    /// Fewest words that are asked for.
    #[must_use]
    pub const fn least_words(self) -> u32 {
        match self {
            Self::Email => 120,
            Self::Essay => 250,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_criterion_is_of_one_skill() {
        for criterion in Criterion::ALL {
            let of = Skill::ALL.iter().filter(|skill| skill.criteria().contains(criterion)).count();
            assert_eq!(of, 1, "{criterion}");
        }
        for skill in Skill::ALL {
            assert_eq!(skill.criteria().len(), if skill.is_keyed() { 0 } else { 4 }, "{skill}");
        }
    }

    #[test]
    fn labels_are_as_the_contract_spells_them() {
        let labels: Vec<&str> = Criterion::ALL.iter().map(|it| it.label()).collect();
        let expected = "task_achievement coherence_cohesion lexical_resource grammatical_range fluency \
                        pronunciation content vocabulary";
        assert_eq!(labels.join(" "), expected);
        assert_eq!(Skill::parse("speaking"), Some(Skill::Speaking));
        assert_eq!(Task::parse("letter"), None);
    }

    #[test]
    fn a_letter_is_shorter_than_an_essay() {
        assert_eq!((Task::Email.least_words(), Task::Essay.least_words()), (120, 250));
    }
}
