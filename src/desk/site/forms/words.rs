//! Values of forms and versions in the words of pages. Pure.

use jiff::Timestamp;

use crate::desk::pages::filters::Choice;
use crate::desk::pages::forms::{self as pages, Follows, Place, Possible, VersionLine, shell};
use crate::desk::pages::version::{
    Changes, FileChange, Line, MailChange, MovedLine, Of, PartChange, SaidLine, SharedForm, SignedLine,
    TextChange, VersionFacts,
};
use crate::desk::pages::when;
use crate::forms::commands::Signature;
use crate::forms::diff::{self, Diff};
use crate::forms::store::read::{FormLine, Said};
use crate::forms::table::{State, Version};
use crate::kernel::rows::{Recorded, Row};
use crate::scrub::scrub;

/// Digits of a digest that name it.
const DIGITS: usize = 12;
/// Texts of each kind that a page shows.
const TEXTS: usize = 60;
/// Lines of each text.
const LINES: usize = 400;

pub(super) fn short(digest: &str) -> String {
    digest.chars().take(DIGITS).collect()
}

pub(super) fn form_line(line: FormLine) -> pages::FormLine {
    let whole = |count: i64| u64::try_from(count).unwrap_or_default();
    let number = line.current.and_then(|number| u32::try_from(number).ok());
    let follows = number.zip(line.moved_at).map(|(number, since)| Follows {
        number,
        since,
        by: line.moved_by.clone().unwrap_or_default(),
    });
    pages::FormLine {
        name: line.name.filter(|name| *name != line.form_id),
        id: line.form_id,
        follows,
        drafts: whole(line.drafts),
        published: whole(line.published),
    }
}

pub(super) fn version_line(row: &Row<Version>, place: Place) -> VersionLine {
    let facts = &row.columns;
    VersionLine {
        number: facts.number,
        state: row.state.label().to_owned(),
        digest: short(&facts.digest),
        author: facts.author.clone(),
        loaded_at: facts.created_at,
        place,
    }
}

pub(super) fn facts(row: &Row<Version>, place: Place, name: Option<String>) -> VersionFacts {
    let facts = &row.columns;
    VersionFacts {
        number: facts.number,
        name,
        state: row.state.label().to_owned(),
        place,
        digest: facts.digest.clone(),
        source: facts.source.label().to_owned(),
        author: facts.author.clone(),
        loaded_at: facts.created_at,
        published_at: facts.published_at,
        tombstoned_at: facts.tombstoned_at,
        deadline: facts.deadline,
    }
}

/// A version as a choice to compare with.
pub(super) fn choice(row: &Row<Version>, place: Place) -> Choice {
    let number = row.columns.number;
    let what = match place {
        Place::Current => "the form follows it",
        Place::Previous => "followed before",
        Place::Beside => row.state.label(),
    };
    Choice { value: number.to_string(), label: format!("version {number}, {what}") }
}

/// What can be done with a form.
pub(super) fn possible_with_form(
    form: &str,
    managed: bool,
    previous: Option<u32>,
    is_admin: bool,
) -> Possible {
    let form = shell(form);
    match (managed, previous) {
        (false, _) => Possible {
            text: "It does what its loader writes, until a published version of it is promoted or what it does now is adopted \
                   as its first."
                .to_owned(),
            commands: vec![
                format!("maple-router forms adopt {form}"),
                "maple-router forms load FILE".to_owned(),
            ],
        },
        (true, None) => Possible {
            text: "It has followed one version only, so there is none to go back to. Another is promoted on its own page.".to_owned(),
            commands: vec!["maple-router forms load FILE".to_owned()],
        },
        (true, Some(number)) => Possible {
            text: if is_admin {
                format!("Go back to version {number}, which it followed before; any other published version is promoted on its own page.")
            } else {
                format!("An admin can take it back to version {number}, which it followed before, or promote another that is published.")
            },
            commands: Vec::new(),
        },
    }
}

/// What can be done with a version.
pub(super) fn possible(
    row: &Row<Version>,
    place: Place,
    previous: Option<u32>,
    (is_admin, now): (bool, Timestamp),
) -> Possible {
    let facts = &row.columns;
    let name = format!("{}@{}", shell(&facts.form_id), facts.number);
    let (text, commands) = match (row.state, place) {
        (State::Draft, _) => (
            "It is a draft: read what it changes, then it is published by its digest, or given up."
                .to_owned(),
            vec![
                format!("maple-router forms publish {name} --expect {}", short(&facts.digest)),
                format!("maple-router forms discard {name} --reason TEXT"),
            ],
        ),
        (State::Published, Place::Current) => {
            let back = previous.map_or_else(String::new, |number| {
                format!(" The way back to version {number} is on the form's page.")
            });
            (format!("The form follows it.{back}"), Vec::new())
        }
        (State::Published, Place::Previous | Place::Beside) => (
            if is_admin {
                "It is published: promote it, and the form follows it from then on.".to_owned()
            } else {
                "It is published: an admin can promote it, so that the form follows it.".to_owned()
            },
            if is_admin {
                Vec::new()
            } else {
                vec![format!("maple-router forms promote {name} --reason TEXT")]
            },
        ),
        (State::Tombstoned, _) => match (facts.published_at, facts.deadline) {
            (Some(_), Some(deadline)) if deadline > now => (
                format!("It is out of use, and can be restored until {}.", when::absolute(&deadline)),
                vec![format!("maple-router forms restore {name}")],
            ),
            (Some(_), _) => (
                "It is out of use, and can no longer be restored: the same file becomes a new version."
                    .to_owned(),
                Vec::new(),
            ),
            (None, _) => (
                "It was given up as a draft, and does not come back: the same file becomes a new version."
                    .to_owned(),
                Vec::new(),
            ),
        },
    };
    Possible { text, commands }
}

pub(super) fn said(said: Said) -> SaidLine {
    SaidLine {
        at: said.at,
        who: said.actor,
        command: said.command,
        allowed: said.allowed,
        policy: said.policy.as_deref().map(short),
        reasons: said.reasons.iter().map(|reason| scrub(reason)).collect(),
    }
}

pub(super) fn signed(Signature { kept, judged }: Signature) -> SignedLine {
    SignedLine {
        at: kept.at,
        void: judged.as_ref().err().map(|why| scrub(&why.to_string())),
        signer: judged.ok().map(|signed| signed.signer),
        key: kept.key,
    }
}

pub(super) fn moved(moved: Recorded) -> MovedLine {
    let from = Some(moved.from).filter(|from| *from != moved.to && from != "-");
    MovedLine {
        at: moved.at,
        who: moved.actor,
        command: moved.command,
        from,
        to: moved.to,
        reason: moved.reason.map(|reason| scrub(&reason)),
    }
}

/// What a version changes; of very much, as much as a page has room for.
pub(super) fn changes(diff: Diff) -> Changes {
    let Diff { name, actions, templates, assets, mails, shared } = diff;
    let left_out = templates.len().saturating_sub(TEXTS) + mails.len().saturating_sub(TEXTS);
    let part = |order: i32, (part, before, after): (&str, Option<String>, Option<String>)| PartChange {
        order,
        part: part.to_owned(),
        before,
        after,
    };
    let parts = |change: diff::ActionChange| {
        change.parts.into_iter().map(move |one| part(change.order, one)).collect::<Vec<_>>()
    };
    let text = |change: diff::TextChange| TextChange {
        template: change.template,
        part: part_words(change.part),
        lines: lines(change.lines),
    };
    let mail = |change: diff::MailChange| MailChange {
        order: change.order,
        sample: change.sample,
        part: part_words(change.part),
        lines: lines(change.lines),
    };
    let file = |change: diff::FileChange| FileChange {
        name: change.name,
        before: change.before.as_deref().map(short),
        after: change.after.as_deref().map(short),
    };
    Changes {
        name,
        actions: actions.into_iter().flat_map(parts).collect(),
        texts: templates.into_iter().take(TEXTS).map(text).collect(),
        files: assets.into_iter().map(file).collect(),
        mails: mails.into_iter().take(TEXTS).map(mail).collect(),
        shared: shared
            .into_iter()
            .map(|one| SharedForm { template: one.template_id, form: one.form_id, managed: one.managed })
            .collect(),
        left_out: u64::try_from(left_out).unwrap_or(u64::MAX),
    }
}

fn part_words(part: &str) -> String {
    match part {
        "body_text" | "text" => "plain text",
        "body_html" | "html" => "HTML",
        other => other,
    }
    .to_owned()
}

fn lines(all: Vec<diff::Line>) -> Vec<Line> {
    let is_cut = all.len() > LINES;
    let line = |line: diff::Line| Line {
        of: match line.sign {
            '-' => Of::Before,
            '+' => Of::After,
            '…' => Of::Gap,
            _ => Of::Both,
        },
        text: line.text,
    };
    let gap = is_cut.then(|| Line { of: Of::Gap, text: String::new() });
    all.into_iter().take(LINES).map(line).chain(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_an_end_ends_and_says_so() {
        let line = |n: usize| diff::Line { sign: '+', text: n.to_string() };
        let shown = lines((0..LINES + 5).map(line).collect());
        assert_eq!(shown.len(), LINES + 1);
        assert_eq!(shown.last().map(|line| line.of), Some(Of::Gap));
        assert_eq!(lines(vec![line(1)]).len(), 1);
    }
}
