//! A sample as its step keeps it. Pure.

use serde_json::{Value, json};

use crate::grading::core::assess::Sample;
use crate::grading::core::score::Score;
use crate::grading::core::skill::Criterion;

/// The document of a sample.
#[must_use]
pub fn written(sample: &Sample) -> Value {
    let criteria: Vec<Value> = sample
        .criteria
        .iter()
        .map(|(criterion, score, feedback, evidence)| {
            json!({"criterion": criterion, "score": score, "feedback": feedback, "evidence": evidence})
        })
        .collect();
    json!({
        "criteria": criteria, "strengths": sample.strengths, "weaknesses": sample.weaknesses, "suggestions": sample.suggestions,
        "injection": sample.injection, "model": sample.model,
    })
}

/// The sample of a document; none where it was not written by [`written`].
#[must_use]
pub fn read(document: &Value) -> Option<Sample> {
    let texts = |of: &Value, name: &str| -> Option<Vec<String>> {
        of.get(name)?.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let criterion = |of: &Value| -> Option<(Criterion, Score, String, Vec<String>)> {
        let criterion = Criterion::parse(of.get("criterion")?.as_str()?)?;
        let score = Score::of_half(of.get("score")?.as_f64()?)?;
        Some((criterion, score, of.get("feedback")?.as_str()?.to_owned(), texts(of, "evidence")?))
    };
    Some(Sample {
        criteria: document.get("criteria")?.as_array()?.iter().map(criterion).collect::<Option<_>>()?,
        strengths: texts(document, "strengths")?,
        weaknesses: texts(document, "weaknesses")?,
        suggestions: texts(document, "suggestions")?,
        injection: document.get("injection")?.as_bool()?,
        model: document.get("model")?.as_str()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_what_is_read() {
        let score = Score::of_half(6.5).expect("a half");
        let sample = Sample {
            criteria: vec![(Criterion::Vocabulary, score, "good".to_owned(), vec!["a quote".to_owned()])],
            strengths: vec!["one".to_owned()],
            weaknesses: Vec::new(),
            suggestions: vec!["two".to_owned()],
            injection: true,
            model: "m".to_owned(),
        };
        assert_eq!(read(&written(&sample)), Some(sample));
        for broken in [json!({}), json!({"criteria": [{}]}), json!([])] {
            assert_eq!(read(&broken), None);
        }
    }
}
