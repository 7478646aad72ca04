//! An id as people write it: the whole of it, or a prefix that names only one thing.
//!
//! A prefix is looked up as a range of the primary key. The program never guesses: of several matches, all are named.

use uuid::Uuid;

use super::{CliError, Exit};

/// Fewest digits of a prefix; fewer name something only by accident.
const LEAST: usize = 4;
/// Things that are named where a prefix is ambiguous.
pub(super) const MOST: usize = 10;

/// An id, or its prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IdArg {
    /// The whole id.
    Whole(Uuid),
    /// A prefix, with the first and the last id it covers.
    Beginning { text: String, first: Uuid, last: Uuid },
}

/// A thing whose id has the prefix: the id, and its description.
pub(super) type Candidate = (Uuid, String);

/// Reads a person's text.
pub(super) fn parse(text: &str) -> Result<IdArg, String> {
    if let Ok(id) = text.parse() {
        return Ok(IdArg::Whole(id));
    }
    let unread = || format!("write an id, or at least its first {LEAST} digits, as in 6f3e0f5c");
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
    if !is_hex || !(LEAST..32).contains(&digits.len()) {
        return Err(unread());
    }
    let filled =
        |with: char| format!("{digits}{}", with.to_string().repeat(32 - digits.len())).parse::<Uuid>();
    let (Ok(first), Ok(last)) = (filled('0'), filled('f')) else { return Err(unread()) };
    // Hyphens stand where an id has them, or nowhere.
    let written = text.to_ascii_lowercase();
    if text.contains('-') && !first.to_string().starts_with(&written) {
        return Err(unread());
    }
    Ok(IdArg::Beginning { text: written, first, last })
}

/// The one thing that a prefix names, among the first that have it.
pub(super) fn only(what: &str, text: &str, found: &[Candidate]) -> Result<Uuid, CliError> {
    match found {
        [] => Err(CliError::new(
            Exit::FoundWanting,
            anyhow::anyhow!("there is no {what} whose id begins with {text} that this database role can see"),
        )
        .remedy("compare the id, and the database named by [database] url")),
        [(id, _)] => Ok(*id),
        several => {
            let more = if several.len() > MOST { ", and more" } else { "" };
            let list: Vec<String> =
                several.iter().take(MOST).map(|(id, about)| format!("\n  {id}  {about}")).collect();
            let text = format!("{text} is the beginning of more than one {what}{more}:{}", list.concat());
            Err(CliError::new(Exit::Usage, anyhow::anyhow!(text)).remedy("write more of it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f3e0f5c-1f0b-4f0e-9a63-0a3b2a9f8c11";

    #[test]
    fn a_beginning_is_a_range_of_ids() {
        let whole: Uuid = ID.parse().expect("an id");
        assert_eq!(parse(ID), Ok(IdArg::Whole(whole)));
        assert_eq!(parse("6f3e0f5c1f0b4f0e9a630a3b2a9f8c11"), Ok(IdArg::Whole(whole)));
        for end in 4..ID.len() {
            match parse(&ID[..end]).expect("a beginning") {
                IdArg::Beginning { first, last, .. } => assert!(first <= whole && whole <= last, "{end}"),
                IdArg::Whole(id) => panic!("{end}: {id}"),
            }
        }
        assert_eq!(
            parse("6F3E0"),
            Ok(IdArg::Beginning {
                text: "6f3e0".to_owned(),
                first: "6f3e0000-0000-0000-0000-000000000000".parse().expect("an id"),
                last: "6f3e0fff-ffff-ffff-ffff-ffffffffffff".parse().expect("an id"),
            })
        );
    }

    #[test]
    fn what_is_no_beginning_is_refused() {
        for text in [
            "",
            "6f3",
            "not-a-uuid",
            "6f3e0-f5c",
            "6f3e-0f5c",
            "6f3e0f5c--1f0b",
            "zzzz",
            "6f3e0f5c1f0b4f0e9a630a3b2a9f8c110",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn of_several_all_are_named_and_nobody_is_guessed() {
        let candidates =
            |n: u128| (0..n).map(|n| (Uuid::from_u128(n), "routed contact".to_owned())).collect::<Vec<_>>();
        assert_eq!(only("submission", "0000", &candidates(1)).expect("one"), Uuid::nil());
        let none = only("submission", "0000", &[]).expect_err("none");
        assert_eq!(none.exit(), Exit::FoundWanting);
        let three = only("submission", "0000", &candidates(3)).expect_err("three");
        assert!(
            three.exit() == Exit::Usage && three.to_string().matches("routed contact").count() == 3,
            "{three}"
        );
        let many = only("submission", "0000", &candidates(11)).expect_err("many").to_string();
        assert!(many.contains("and more") && many.matches("routed contact").count() == MOST, "{many}");
    }
}
