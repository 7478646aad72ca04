//! The form by which a person grades a work. It is graded as by the API (`grades`). Refused: the page again, with what is wrong beside its field
//! and what was typed still there.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};

use super::actions::sentence;
use super::decision::after;
use super::entry::{self, Wanted};
use super::flash::Done;
use super::{Shared, entry_id, written};
use crate::desk::access::Visitor;
use crate::desk::access::credential::DeskKey;
use crate::desk::api::refused;
use crate::desk::decide::Repeat;
use crate::desk::grades::{Grading, Outcome, grader};
use crate::desk::input::{Command, Path};
use crate::desk::pages::assessment::{CriterionField, FORM, FirstView, GradeForm};
use crate::desk::pages::entry::{EntryPage, SubjectView};
use crate::desk::pages::frame::Problem as Told;
use crate::desk::pages::plain;
use crate::desk::problem::Problem;
use crate::grading::core::result::{Broken, Feedback};
use crate::grading::core::score::Score;
use crate::grading::core::skill::Criterion;
use crate::grading::review::{PersonsReview, PersonsScore};
use crate::grading::subject::ATTEMPT;
use crate::grey_queue::decide::Refusal;

/// The fields of the form, by their names.
type Posted = BTreeMap<String, String>;

pub(super) async fn review(
    State(site): Shared,
    Extension(secret): Extension<DeskKey>,
    visitor: Visitor,
    Path(id): Path<String>,
    posted: Command<Posted>,
) -> Result<Response, Problem> {
    let by = grader(&visitor)?;
    let id = entry_id(&id)?;
    let found = site.commands().store.get(id).await?.filter(|entry| entry.subject.kind == ATTEMPT);
    let entry = found.ok_or_else(|| Problem::not_found("entry of this id that is graded"))?;
    let Command { body, key, request, .. } = posted;
    let version = field(&body, "version").parse().map_err(|_| Problem::precondition_required())?;
    let said = said(&body);
    let grading = Grading {
        id: entry.subject.id,
        version,
        said: &said,
        reason: field(&body, "reason"),
        by: &by,
        repeat: key.as_ref().map(|key| Repeat { key, request: &request }),
    };
    let list = field(&body, "list");
    let outcome = site.grades.grade(&grading).await?;
    if let Outcome::Done(_) | Outcome::Repeated(_) = outcome {
        return Ok(Redirect::to(&after(id, Done::Graded, list)).into_response());
    }
    if let Outcome::Unknown = outcome {
        return Err(Problem::not_found("entry of this id that is graded"));
    }
    let mut page = entry::page(&site, &secret, &visitor, id, (&Wanted::of_list(list), None)).await?;
    give_back(&mut page, &body, &outcome, key.map(|key| key.as_str().to_owned()));
    Ok(refused(&outcome).page(written(&page)?))
}

fn field<'a>(posted: &'a Posted, name: &str) -> &'a str {
    posted.get(name).map_or("", String::as_str)
}

/// The grade that was typed. What is no score is none: the rule that each criterion has one says so.
fn said(posted: &Posted) -> PersonsReview {
    let score = |criterion: &Criterion| {
        let number = field(posted, &format!("score_{criterion}")).parse::<f64>().ok()?;
        let feedback = field(posted, &format!("feedback_{criterion}")).trim().replace("\r\n", "\n");
        Some(PersonsScore { criterion: *criterion, score: Score::of_half(number)?, feedback })
    };
    let lines = |name: &str| {
        let lines = field(posted, name).lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    PersonsReview {
        criteria_scores: Criterion::ALL.iter().filter_map(score).collect(),
        feedback: Feedback {
            strengths: lines("strengths"),
            weaknesses: lines("weaknesses"),
            suggestions: lines("suggestions"),
        },
    }
}

/// What was typed is in the form again; where that is not offered any more, it is shown. What is wrong stands at its field.
fn give_back(page: &mut EntryPage, posted: &Posted, outcome: &Outcome, key: Option<String>) {
    let SubjectView::Assessment(view) = &mut page.subject else { return };
    let mut told = Told { text: words(outcome), field: Some("grade".to_owned()) };
    if let Outcome::First(first) = outcome {
        let state = first.state.label().to_owned();
        view.first = Some(FirstView { by: first.by.clone(), at: first.at, state });
    }
    match &mut view.form {
        Some(form) => {
            for criterion in &mut form.criteria {
                field(posted, &format!("score_{}", criterion.key)).clone_into(&mut criterion.score);
                field(posted, &format!("feedback_{}", criterion.key)).clone_into(&mut criterion.feedback);
            }
            let texts = [
                ("strengths", &mut form.strengths),
                ("weaknesses", &mut form.weaknesses),
                ("suggestions", &mut form.suggestions),
                ("reason", &mut form.reason),
            ];
            for (name, text) in texts {
                field(posted, name).clone_into(text);
            }
            let is_own = matches!(outcome, Outcome::Broken(_) | Outcome::Refused(_) | Outcome::NotNow(_));
            if let Some(key) = key.filter(|_| is_own) {
                form.idempotency_key = key;
            }
            if let Some(anchor) = at(form, outcome) {
                told.field = Some(anchor.clone());
                form.error = Some((anchor, told.text.clone()));
            }
        }
        None => {
            view.lost = typed(posted);
        }
    }
    page.frame.problems.push(told);
}

/// Whatever was typed, in the order of the form.
fn typed(posted: &Posted) -> Vec<(String, String)> {
    let by_criterion = Criterion::ALL.iter().flat_map(|criterion| {
        let label = criterion.label();
        let words = plain::criterion(label);
        [
            (format!("score_{label}"), format!("score of {words}")),
            (format!("feedback_{label}"), format!("feedback on {words}")),
        ]
    });
    let whole =
        ["strengths", "weaknesses", "suggestions", "reason"].map(|name| (name.to_owned(), name.to_owned()));
    let all = by_criterion.chain(whole).map(|(name, words)| (words, field(posted, &name).to_owned()));
    all.filter(|(_, text)| !text.is_empty()).collect()
}

/// The field that is at fault.
fn at(form: &GradeForm, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Broken(Broken::Criteria | Broken::Halves) => {
            let missing = form.criteria.iter().find(|field| field.score.is_empty()).or(form.criteria.first());
            missing.map(|field| CriterionField::anchor(&field.key))
        }
        Outcome::Refused(Refusal::Guard { field: "reason", .. }) => Some(format!("{FORM}-reason")),
        Outcome::Broken(_)
        | Outcome::Refused(_)
        | Outcome::Done(_)
        | Outcome::Repeated(_)
        | Outcome::KeyMismatch
        | Outcome::First(_)
        | Outcome::NotNow(_)
        | Outcome::Unknown => None,
    }
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::First(first) => format!("{} was first: nothing of your grade was recorded.", first.by),
        Outcome::Broken(Broken::Criteria) => "Choose a score by each criterion.".to_owned(),
        Outcome::Broken(broken) => sentence(&broken.to_string()),
        Outcome::NotNow(why) => why.clone(),
        Outcome::KeyMismatch => {
            "This form was sent before with other words. Look at what was done, then send it again."
                .to_owned()
        }
        Outcome::Refused(Refusal::Guard { why, .. }) => sentence(why),
        Outcome::Refused(refusal) => sentence(&refusal.to_string()),
        Outcome::Unknown | Outcome::Done(_) | Outcome::Repeated(_) => "There is no such work.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_it_was_filled_in() {
        let posted: Posted = [
            ("score_fluency", "7.5"),
            ("score_content", "11"),
            ("score_vocabulary", ""),
            ("feedback_fluency", " good\r\nand well "),
            ("strengths", "one\r\n\r\n two "),
        ]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
        let said = said(&posted);
        assert_eq!(said.criteria_scores.len(), 1, "what is no score is none");
        assert_eq!(said.criteria_scores[0].feedback, "good\nand well");
        assert_eq!(said.feedback.strengths, ["one", "two"]);
        assert!(said.feedback.weaknesses.is_empty());
    }
}
