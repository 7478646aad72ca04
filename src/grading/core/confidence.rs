//! How sure a grade is, 0 to 100. Pure.
//!
//! Four parts: whether the samples agree, whether the work has the shape of its task, whether it is the learner's own, and
//! whether it is long enough. What cannot be said has no part, and its weight goes to the others. All of it is counted in
//! integers, so that both sides, and a later calibration, find the same number.
//!
//! Nothing here understands a text. These are cheap signs, each easily met by whoever knows of it: they may send a work to a
//! person, and never make its score.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::key::folded;
use super::score::Score;
use super::skill::Task;

/// Most that a grade with an estimate in it can reach: below [`Thresholds::audit`](super::review::Thresholds), so that a
/// person listens.
pub const MOST_OF_ESTIMATED: u8 = 84;
/// Likeness that is owed to the task: English on one subject shares words. In hundredths of a percent.
pub const TOLERATED: u32 = 6_000;
/// Likeness from which a text is a copy. In hundredths of a percent.
pub const COPIED: u32 = 8_000;

/// Fewest sentences of a task; paragraphs of an essay.
const LEAST_SENTENCES_OF_EMAIL: usize = 5;
const LEAST_SENTENCES_OF_ESSAY: usize = 8;
const LEAST_PARAGRAPHS: usize = 3;
/// Words of a sentence that say something about its origin, at least.
const LEAST_WORDS_OF_SENTENCE: usize = 4;
/// Words or letters from which a language can be told.
const LEAST_WORDS: usize = 20;
const LEAST_LETTERS: usize = 100;
/// Shares of English, at least: of ASCII among letters, of common words among words. In percent.
const LEAST_ASCII: usize = 90;
const LEAST_COMMON: usize = 18;

const GREETINGS: [&str; 9] =
    ["dear", "hello", "hi", "hey", "good morning", "good afternoon", "good evening", "greetings", "to whom"];
const CLOSINGS: [&str; 24] = [
    "all the best",
    "best",
    "bye",
    "cheers",
    "faithfully",
    "hope to hear",
    "hugs",
    "kind regards",
    "lots of love",
    "looking forward",
    "love",
    "many thanks",
    "regards",
    "respectfully",
    "see you",
    "sincerely",
    "take care",
    "thank you",
    "thanks",
    "warm regards",
    "warmly",
    "with love",
    "write back",
    "yours",
];
/// Words that make up a third or more of any English text, and are rare or unknown in other languages of that script.
const COMMON: [&str; 64] = [
    "about", "after", "all", "also", "and", "are", "as", "at", "because", "been", "but", "by", "can",
    "could", "do", "for", "from", "had", "has", "have", "he", "her", "his", "how", "i", "if", "in", "is",
    "it", "many", "more", "my", "not", "of", "or", "other", "our", "people", "she", "should", "so", "some",
    "than", "that", "the", "their", "them", "there", "these", "they", "this", "to", "was", "we", "were",
    "what", "when", "which", "who", "will", "with", "would", "you", "your",
];

/// Parts of a confidence, each 0 to 100; one that cannot be said is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// The samples agree; weight 30.
    pub consistency: Option<u8>,
    /// The shape of the task; weight 25.
    pub rules: Option<u8>,
    /// The learner's own; weight 25.
    pub originality: Option<u8>,
    /// Long enough; weight 20.
    pub length: Option<u8>,
}

impl Parts {
    /// The confidence: the weighted mean of what can be said, rounded half up; 0 where nothing can.
    #[must_use]
    pub fn overall(&self) -> u8 {
        let parts = [(self.consistency, 30_u32), (self.rules, 25), (self.originality, 25), (self.length, 20)];
        let said = |(part, weight): (Option<u8>, u32)| part.map(|part| (u32::from(part.min(100)), weight));
        let add = |(sum, of): (u32, u32), (part, weight): (u32, u32)| (sum + part * weight, of + weight);
        let (sum, of) = parts.into_iter().filter_map(said).fold((0, 0), add);
        percent(u128::from(sum), u128::from(of) * 100)
    }
}

/// A confidence with an estimate in the grade.
#[must_use]
pub fn capped(confidence: u8, estimated: bool) -> u8 {
    if estimated { confidence.min(MOST_OF_ESTIMATED) } else { confidence }
}

/// 100 − 20 σ of the samples' overall scores, σ that of a population. One sample agrees with nobody: none.
#[must_use]
pub fn consistency(overall: &[Score]) -> Option<u8> {
    let tenths = || overall.iter().map(|score| u64::from(score.tenths()));
    let count = u64::try_from(overall.len()).ok().filter(|count| *count > 1)?;
    let (sum, squares) = (tenths().sum::<u64>(), tenths().map(|it| it * it).sum::<u64>());
    // n² times the variance in square tenths; 20 σ is 2 √ of it ÷ n, here rounded to the nearest.
    let spread = (count * squares).saturating_sub(sum * sum);
    let lost = ((16 * spread).isqrt() + count) / (2 * count);
    Some(u8::try_from(100_u64.saturating_sub(lost)).unwrap_or(0))
}

/// Whether a text has the shape of its task: 100, less 25 for each of what a letter lacks (greeting, closing) or half of the
/// paragraphs of an essay, 25 where sentences are few, and up to 50 for sentences that are said again.
#[must_use]
pub fn rules(text: &str, task: Task) -> u8 {
    let sentences = sentences(text);
    let (shape, least) = match task {
        Task::Email => {
            let lacks = usize::from(!is_greeted(text)) + usize::from(!is_closed(text));
            (lacks * 25, LEAST_SENTENCES_OF_EMAIL)
        }
        Task::Essay => {
            (LEAST_PARAGRAPHS.saturating_sub(paragraphs(text)).min(2) * 25, LEAST_SENTENCES_OF_ESSAY)
        }
    };
    let few = if sentences.len() < least { 25 } else { 0 };
    let distinct: BTreeSet<&String> = sentences.iter().collect();
    let again = ((sentences.len() - distinct.len()) * 100).checked_div(sentences.len()).unwrap_or(0).min(50);
    u8::try_from(100_usize.saturating_sub(shape + few + again)).unwrap_or(0)
}

/// 100 where the text is no more like the prompt and the known texts than English on one subject is, 0 where it is one of
/// them, in between in proportion. A text without words says nothing: none.
#[must_use]
pub fn originality<'a>(text: &str, sources: impl IntoIterator<Item = &'a str>) -> Option<u8> {
    let own = trigrams(text);
    if own.is_empty() {
        return None;
    }
    let most = sources.into_iter().map(|source| cosine(&own, &trigrams(source))).max().unwrap_or(0);
    let left = 10_000 - most.clamp(TOLERATED, 10_000);
    Some(percent(u128::from(left), u128::from(10_000 - TOLERATED)))
}

/// 100 from the task's fewest words to double of them; in proportion below, and above.
#[must_use]
pub fn length(words: u32, task: Task) -> u8 {
    let (words, least) = (u128::from(words), u128::from(task.least_words()));
    if words > 2 * least { percent(2 * least, words) } else { percent(words.min(least), least) }
}

/// Whether a text is in English, as far as letters and common words tell. Nine letters of ten are ASCII: names are forgiven,
/// and a half in another script is not. Of the words, near a fifth are among the commonest: learners' texts have twice
/// that, other languages of the script a few by chance. A short text cannot be told and passes.
#[must_use]
pub fn is_english(text: &str) -> bool {
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    let ascii = text.chars().filter(char::is_ascii_alphabetic).count();
    let words: Vec<String> = words(text).collect();
    if words.len() < LEAST_WORDS && letters < LEAST_LETTERS {
        return true;
    }
    let common = words.iter().filter(|word| COMMON.contains(&word.as_str())).count();
    ascii * 100 >= letters * LEAST_ASCII && common * 100 >= words.len() * LEAST_COMMON
}

/// Whether a text is a copy of a source: as good as the same, or most of its words stand in sentences of the source.
#[must_use]
pub fn is_copied(text: &str, source: &str) -> bool {
    let (own, other) = (trigrams(text), trigrams(source));
    if cosine(&own, &other) >= COPIED {
        return true;
    }
    let source = format!(" {} ", words(source).collect::<Vec<_>>().join(" "));
    let (mut copied, mut all) = (0, 0);
    for sentence in sentences(text) {
        let count = sentence.split(' ').count();
        all += count;
        if count >= LEAST_WORDS_OF_SENTENCE && source.contains(&format!(" {sentence} ")) {
            copied += count;
        }
    }
    copied * 2 > all
}

/// Likeness of two texts: the cosine of their trigrams, in hundredths of a percent.
#[must_use]
pub fn likeness(one: &str, other: &str) -> u32 {
    cosine(&trigrams(one), &trigrams(other))
}

type Trigrams = HashMap<[char; 3], u64>;

/// How often each three letters stand in a text's words, a space before and after each. Common words are left out: they
/// alone would make any two English texts alike.
fn trigrams(text: &str) -> Trigrams {
    let mut found = Trigrams::new();
    for word in words(text).filter(|word| !COMMON.contains(&word.as_str())) {
        let letters = || std::iter::once(' ').chain(word.chars()).chain(std::iter::once(' '));
        for ((one, two), three) in letters().zip(letters().skip(1)).zip(letters().skip(2)) {
            *found.entry([one, two, three]).or_default() += 1;
        }
    }
    found
}

fn cosine(one: &Trigrams, other: &Trigrams) -> u32 {
    let norm = |of: &Trigrams| of.values().map(|count| u128::from(*count) * u128::from(*count)).sum::<u128>();
    let both = |(trigram, count): (&[char; 3], &u64)| {
        other.get(trigram).map_or(0, |times| u128::from(*count) * u128::from(*times))
    };
    let dot: u128 = one.iter().map(both).sum();
    let square = (dot * dot * 100_000_000).checked_div(norm(one) * norm(other)).unwrap_or(0);
    u32::try_from(square.isqrt()).unwrap_or(10_000)
}

/// Words of a text, folded: letters and digits, with what holds them together.
fn words(text: &str) -> impl Iterator<Item = String> {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let apart = |c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’' | '-'));
    let words: Vec<String> = folded(text).split(apart).map(bare).filter(|word| !word.is_empty()).collect();
    words.into_iter()
}

/// Words of a text: letters and digits, with what holds them together.
#[must_use]
pub fn count_words(text: &str) -> u32 {
    u32::try_from(words(text).count()).unwrap_or(u32::MAX)
}

/// Sentences, each its words with a space between.
fn sentences(text: &str) -> Vec<String> {
    let of = |sentence: &str| words(sentence).collect::<Vec<_>>().join(" ");
    text.split(['.', '!', '?', '\n', '…', '。']).map(of).filter(|sentence| !sentence.is_empty()).collect()
}

/// Paragraphs: blocks between blank lines, or lines where there is no blank one.
fn paragraphs(text: &str) -> usize {
    let (mut blocks, mut lines, mut inside) = (0, 0, false);
    let text = text.trim();
    for line in text.lines() {
        let blank = line.trim().is_empty();
        blocks += usize::from(!blank && !inside);
        lines += usize::from(!blank);
        inside = !blank;
    }
    if text.lines().any(|line| line.trim().is_empty()) { blocks } else { lines }
}

fn starts_with_any(text: &str, phrases: &[&str]) -> bool {
    let padded = format!("{text} ");
    phrases.iter().any(|phrase| padded.strip_prefix(phrase).is_some_and(|rest| rest.starts_with(' ')))
}

fn is_greeted(text: &str) -> bool {
    sentences(text).first().is_some_and(|first| starts_with_any(first, &GREETINGS))
}

/// One of the last three lines, or, where all is in one line, one of the last words on begins a closing.
fn is_closed(text: &str) -> bool {
    let lines = text.lines().rev().map(|line| words(line).collect::<Vec<_>>().join(" "));
    let by_line = lines.filter(|line| !line.is_empty()).take(3).any(|line| starts_with_any(&line, &CLOSINGS));
    let words: Vec<String> = words(text).collect();
    let last = (words.len().saturating_sub(8)..words.len()).filter_map(|from| words.get(from..));
    by_line || last.map(|words| words.join(" ")).any(|end| starts_with_any(&end, &CLOSINGS))
}

/// A share in percent, rounded half up, 100 at the most; 0 of nothing.
fn percent(part: u128, whole: u128) -> u8 {
    let percent = (200 * part + whole).checked_div(2 * whole).unwrap_or(0);
    u8::try_from(percent.min(100)).unwrap_or(100)
}

/// The look of a work, by the labels of [`Parts`]: for events and logs, which have no texts.
#[must_use]
pub fn labelled(parts: &Parts) -> BTreeMap<&'static str, u8> {
    let parts = [
        ("consistency", parts.consistency),
        ("rules", parts.rules),
        ("originality", parts.originality),
        ("length", parts.length),
    ];
    parts.into_iter().filter_map(|(name, part)| part.map(|part| (name, part))).collect()
}

#[cfg(test)]
#[path = "confidence_tests.rs"]
mod tests;
