//! What a version changes of another, as people review it: actions side by side, texts line by line, and the mails that samples would
//! become, before and after. Pure.
//!
//! For the eyes of people who may read forms: destinations and texts are shown.

use std::collections::BTreeSet;

use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::definition::{Action, Definition, Sample, Template};
use super::preview::{Composer, Preview};
use super::store::Shared;

/// Unchanged lines that are shown around a changed one.
const AROUND: usize = 2;

/// What changes from one definition to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diff {
    /// The form's name, where it changes: before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<(String, String)>,
    /// Actions that change, by their order.
    pub actions: Vec<ActionChange>,
    /// Texts of templates that change.
    pub templates: Vec<TextChange>,
    /// Files that change.
    pub assets: Vec<FileChange>,
    /// Mails and tickets of the samples that change.
    pub mails: Vec<MailChange>,
    /// Other forms that use a template which changes.
    pub shared: Vec<Shared>,
}

/// One action, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActionChange {
    /// Its order.
    pub order: i32,
    /// Its parts that differ: name, before, after. An action that comes or goes has all of them.
    pub parts: Vec<(&'static str, Option<String>, Option<String>)>,
}

/// One text of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextChange {
    /// The template.
    pub template: String,
    /// `subject`, `body_text` or `body_html`.
    pub part: &'static str,
    /// Its lines that differ, and some around them.
    pub lines: Vec<Line>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its name.
    pub name: String,
    /// SHA-256 before.
    pub before: Option<String>,
    /// SHA-256 after.
    pub after: Option<String>,
}

/// The mail or ticket of an action on a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MailChange {
    /// The action's order.
    pub order: i32,
    /// The sample.
    pub sample: String,
    /// `subject`, `text` or `html`.
    pub part: &'static str,
    /// Its lines that differ, and some around them.
    pub lines: Vec<Line>,
}

/// One line of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `-` before, `+` after, a blank for both, `…` where lines are left out.
    pub sign: char,
    /// The line.
    pub text: String,
}

impl Diff {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { name, actions, templates, assets, mails, shared: _ } = self;
        name.is_none() && actions.is_empty() && templates.is_empty() && assets.is_empty() && mails.is_empty()
    }
}

/// What changes from `before`, or from nothing, to `after`. `shared`: other forms that use templates of `after`.
#[must_use]
pub fn diff(
    before: Option<&Definition>,
    after: &Definition,
    shared: &[Shared],
    composer: &dyn Composer,
) -> Diff {
    let empty = Definition {
        id: after.id.clone(),
        name: after.name.clone(),
        actions: Vec::new(),
        templates: [].into(),
        assets: [].into(),
        samples: Vec::new(),
    };
    let before = before.unwrap_or(&empty);
    let templates = templates(before, after);
    let touched: BTreeSet<&str> = templates.iter().map(|change| change.template.as_str()).collect();
    let shared =
        shared.iter().filter(|shared| touched.contains(shared.template_id.as_str())).cloned().collect();
    Diff {
        name: (before.name != after.name).then(|| (before.name.clone(), after.name.clone())),
        actions: actions(before, after),
        assets: assets(before, after),
        mails: mails(before, after, composer),
        shared,
        templates,
    }
}

fn actions(before: &Definition, after: &Definition) -> Vec<ActionChange> {
    let of = |definition: &Definition, order| {
        definition.actions.iter().find(|action| action.order == order).cloned()
    };
    let orders: BTreeSet<i32> =
        before.actions.iter().chain(&after.actions).map(|action| action.order).collect();
    let change = |order| {
        let (old, new) = (of(before, order).map(parts), of(after, order).map(parts));
        let names = old.as_ref().or(new.as_ref()).map(|parts| parts.each_ref().map(|(name, _)| *name))?;
        let at = |parts: &Option<[(&'static str, Option<String>); 5]>, place: usize| {
            parts.as_ref().and_then(|parts| parts.get(place)?.1.clone())
        };
        let parts: Vec<_> = (0..names.len())
            .filter_map(|place| Some((*names.get(place)?, at(&old, place), at(&new, place))))
            .filter(|(_, before, after)| before != after)
            .collect();
        (!parts.is_empty()).then_some(ActionChange { order, parts })
    };
    orders.into_iter().filter_map(change).collect()
}

fn parts(action: Action) -> [(&'static str, Option<String>); 5] {
    let destination = Some(action.destination).filter(|text| !text.is_empty());
    [
        ("type", Some(action.kind)),
        ("template", action.template),
        ("destination", destination),
        ("subject", action.subject),
        ("category", action.category),
    ]
}

fn templates(before: &Definition, after: &Definition) -> Vec<TextChange> {
    let ids: BTreeSet<&String> = before.templates.keys().chain(after.templates.keys()).collect();
    let none = Template { subject: String::new(), body_text: String::new(), body_html: String::new() };
    let mut changes = Vec::new();
    for id in ids {
        let old = before.templates.get(id).unwrap_or(&none);
        let new = after.templates.get(id).unwrap_or(&none);
        for (part, old, new) in [
            ("subject", &old.subject, &new.subject),
            ("body_text", &old.body_text, &new.body_text),
            ("body_html", &old.body_html, &new.body_html),
        ] {
            let lines = lines(old, new);
            if !lines.is_empty() {
                changes.push(TextChange { template: id.clone(), part, lines });
            }
        }
    }
    changes
}

fn assets(before: &Definition, after: &Definition) -> Vec<FileChange> {
    let names: BTreeSet<&String> = before.assets.keys().chain(after.assets.keys()).collect();
    let of = |definition: &Definition, name: &String| {
        definition.assets.get(name).map(|asset| asset.sha256.clone())
    };
    names
        .into_iter()
        .map(|name| FileChange { name: name.clone(), before: of(before, name), after: of(after, name) })
        .filter(|change| change.before != change.after)
        .collect()
}

/// The samples of both; one of a name is the newer one's.
fn mails(before: &Definition, after: &Definition, composer: &dyn Composer) -> Vec<MailChange> {
    let mut samples: Vec<&Sample> = after.samples.iter().collect();
    for sample in &before.samples {
        if !samples.iter().any(|other| other.name == sample.name) {
            samples.push(sample);
        }
    }
    let orders: BTreeSet<i32> =
        before.actions.iter().chain(&after.actions).map(|action| action.order).collect();
    let mut changes = Vec::new();
    for order in orders {
        for sample in &samples {
            let of = |definition: &Definition| {
                let action = definition.actions.iter().find(|action| action.order == order)?;
                Some(composer.preview(definition, action, sample))
            };
            let (old, new) = (texts(of(before)), texts(of(after)));
            for (part, old, new) in
                [("subject", &old.0, &new.0), ("text", &old.1, &new.1), ("html", &old.2, &new.2)]
            {
                let lines = lines(old, new);
                if !lines.is_empty() {
                    changes.push(MailChange { order, sample: sample.name.clone(), part, lines });
                }
            }
        }
    }
    changes
}

/// The texts of a mail; a mail that cannot be made has the reason as its subject.
fn texts(mail: Option<Result<Preview, String>>) -> (String, String, String) {
    match mail {
        None => Default::default(),
        Some(Ok(preview)) => (preview.subject, preview.text, preview.html.unwrap_or_default()),
        Some(Err(why)) => (format!("[cannot be made: {why}]"), String::new(), String::new()),
    }
}

/// The lines that differ, with some around them; none where nothing does.
fn lines(before: &str, after: &str) -> Vec<Line> {
    if before == after {
        return Vec::new();
    }
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            lines.push(Line { sign: '…', text: String::new() });
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            lines.push(Line { sign, text: change.value().trim_end_matches(['\r', '\n']).to_owned() });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::checks::tests::Plain;
    use crate::forms::definition::tests::contact;

    #[test]
    fn the_same_changes_nothing() {
        assert!(diff(Some(&contact()), &contact(), &[], &Plain).is_empty());
    }

    #[test]
    fn an_action_that_changes_has_the_parts_that_differ_side_by_side() {
        let mut after = contact();
        after.actions[0].destination = "x@example.org".to_owned();
        after.actions.remove(1);
        let diff = diff(Some(&contact()), &after, &[], &Plain);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            diff.actions,
            [
                ActionChange {
                    order: 1,
                    parts: vec![("destination", some("a@example.org, b@example.org"), some("x@example.org"))]
                },
                ActionChange {
                    order: 5,
                    parts: vec![
                        ("type", some("email_raw"), None),
                        ("destination", some("c@example.org"), None)
                    ]
                },
            ]
        );
    }

    #[test]
    fn texts_are_told_by_line_with_the_mails_they_make_and_the_forms_they_touch() {
        let mut before = contact();
        before.templates.get_mut("contact-mail").expect("there").body_text =
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n".to_owned();
        let mut after = before.clone();
        after.templates.get_mut("contact-mail").expect("there").body_text =
            "1\n2\n3\n4\nfive\n6\n7\n8\n9\n".to_owned();
        let shared = |template: &str| Shared {
            template_id: template.to_owned(),
            form_id: "other".to_owned(),
            managed: false,
        };
        let diff = diff(Some(&before), &after, &[shared("contact-mail"), shared("untouched")], &Plain);
        let shown: Vec<String> =
            diff.templates[0].lines.iter().map(|line| format!("{}{}", line.sign, line.text)).collect();
        assert_eq!(shown, [" 3", " 4", "-5", "+five", " 6", " 7"]);
        assert_eq!((diff.templates.len(), diff.templates[0].part), (1, "body_text"));
        assert_eq!((diff.mails.len(), diff.mails[0].order, diff.mails[0].part), (1, 1, "text"));
        assert_eq!(diff.shared, [shared("contact-mail")]);
    }

    #[test]
    fn a_mail_that_can_no_longer_be_made_says_so_where_its_subject_was() {
        let mut after = contact();
        after.templates.get_mut("contact-mail").expect("there").body_text = "broken".to_owned();
        let diff = diff(Some(&contact()), &after, &[], &Plain);
        let subject = diff.mails.iter().find(|mail| mail.part == "subject").expect("changes");
        assert!(subject.lines.iter().any(|line| line.sign == '+' && line.text.contains("cannot be made")));
    }

    #[test]
    fn the_first_version_is_all_new() {
        let diff = diff(None, &contact(), &[], &Plain);
        assert_eq!(diff.actions.len(), 2);
        assert!(diff.templates.iter().all(|change| change.lines.iter().all(|line| line.sign == '+')));
    }
}
