//! References: which a submitter may name, and which one of those that the host names is meant.
//!
//! Pure. An object's id is never asked for: a host answers for commits of forks under the parent's name. So a commit counts only
//! as the tip of HEAD, of a branch or of a tag; `refs/pull/*` are a fork's, too.

use super::fault::SourceFault;

/// Longest name.
const LONGEST: usize = 200;
/// Least digits of an abbreviated object's id.
const ABBREVIATED: usize = 7;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// The host's own choice.
    Head,
    /// A branch or a tag of this name, whichever there is.
    Name(String),
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
}

impl Asked {
    /// Reads what a submitter wrote.
    pub(super) fn read(text: Option<&str>) -> Result<Self, SourceFault> {
        let Some(text) = text else { return Ok(Self::Head) };
        let asked = match (text, text.strip_prefix("refs/heads/"), text.strip_prefix("refs/tags/")) {
            ("HEAD", ..) => return Ok(Self::Head),
            (_, Some(name), _) => Self::Branch(name.to_owned()),
            (_, _, Some(name)) => Self::Tag(name.to_owned()),
            (name, ..) => Self::Name(name.to_owned()),
        };
        match asked.name() {
            Some(name) if is_name(name) && !looks_like_id(name) => Ok(asked),
            Some(_) | None => Err(SourceFault::Reference),
        }
    }

    /// The short name, which `clone --branch` takes.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Head => None,
            Self::Name(name) | Self::Branch(name) | Self::Tag(name) => Some(name),
        }
    }
}

/// A part of git-check-ref-format(1), in ASCII.
fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with('.') && !part.ends_with(".lock")
    };
    name.len() <= LONGEST
        && name != "@"
        && !name.contains("..")
        && !name.starts_with("refs/")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte))
        && name.split('/').all(part)
}

/// An object's id, whole or abbreviated. Digits alone may be a date.
fn looks_like_id(name: &str) -> bool {
    let hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let letters = name.bytes().any(|byte| byte.is_ascii_alphabetic());
    hex && (matches!(name.len(), 40 | 64) || letters && (ABBREVIATED..=64).contains(&name.len()))
}

/// The reference that is meant, and its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Name under which the host has it.
    pub(super) reference: String,
    /// Commit it points to; of a tag with a text of its own, the commit that this is about.
    pub(super) commit: String,
}

/// What the host names, line by line of `ls-remote --symref`: of it only what may be meant is kept.
#[derive(Debug)]
pub(super) struct Advertised<'a> {
    asked: &'a Asked,
    /// Branch that HEAD stands for.
    symref: Option<String>,
    symref_commit: Option<String>,
    head: Option<String>,
    branch: Option<String>,
    tag: Option<String>,
    peeled: Option<String>,
}

impl<'a> Advertised<'a> {
    pub(super) fn new(asked: &'a Asked) -> Self {
        Self { asked, symref: None, symref_commit: None, head: None, branch: None, tag: None, peeled: None }
    }

    /// Takes a line, which is the host's: what is no id and name is malformed.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), SourceFault> {
        let line = str::from_utf8(line).map_err(|_| SourceFault::Malformed)?;
        let (left, name) = line.split_once('\t').ok_or(SourceFault::Malformed)?;
        if let Some(target) = left.strip_prefix("ref: ") {
            if name == "HEAD" && target.strip_prefix("refs/heads/").is_some_and(is_name) {
                self.symref = Some(target.to_owned());
            }
            return Ok(());
        }
        if !matches!(left.len(), 40 | 64) || !left.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(SourceFault::Malformed);
        }
        let commit = || Some(left.to_owned());
        if name == "HEAD" {
            self.head = commit();
        } else if self.symref.as_deref() == Some(name) {
            self.symref_commit = commit();
        }
        let Some(wanted) = self.asked.name() else { return Ok(()) };
        if name.strip_prefix("refs/heads/") == Some(wanted) {
            self.branch = commit();
        } else if let Some(tag) = name.strip_prefix("refs/tags/") {
            if tag == wanted {
                self.tag = commit();
            } else if tag.strip_suffix("^{}") == Some(wanted) {
                self.peeled = commit();
            }
        }
        Ok(())
    }

    /// The one that is meant. A name that a branch and a tag have is refused: `clone` would choose by its own rule.
    pub(super) fn find(self) -> Result<Found, SourceFault> {
        let tag = self.tag.map(|tag| self.peeled.unwrap_or(tag));
        let found =
            |kind: &str, name: &str, commit| Found { reference: format!("refs/{kind}/{name}"), commit };
        match (self.asked, self.branch, tag) {
            (Asked::Head, ..) => {
                let commit = self.head.ok_or(SourceFault::Missing)?;
                let same = self.symref_commit.as_ref() == Some(&commit);
                let reference = self.symref.filter(|_| same).unwrap_or_else(|| "HEAD".to_owned());
                Ok(Found { reference, commit })
            }
            (Asked::Name(name) | Asked::Branch(name), Some(commit), None) => Ok(found("heads", name, commit)),
            (Asked::Name(name) | Asked::Tag(name), None, Some(commit)) => Ok(found("tags", name, commit)),
            (Asked::Name(_) | Asked::Branch(_) | Asked::Tag(_), _, _) => Err(SourceFault::Reference),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    fn find(asked: Option<&str>, lines: &[(&str, &str)]) -> Result<(String, String), SourceFault> {
        let asked = Asked::read(asked)?;
        let mut advertised = Advertised::new(&asked);
        for (left, name) in lines {
            advertised.line(format!("{left}\t{name}").as_bytes())?;
        }
        advertised.find().map(|found| (found.reference, found.commit))
    }

    fn is(reference: &str, commit: &str) -> Result<(String, String), SourceFault> {
        Ok((reference.to_owned(), commit.to_owned()))
    }

    #[test]
    fn names_are_read_and_ids_are_not() {
        for text in [
            "main",
            "v1.2.3",
            "release/1.x",
            "pkg@1.0",
            "20240131",
            "refs/heads/main",
            "refs/tags/v1",
            "HEAD",
        ] {
            assert!(Asked::read(Some(text)).is_ok(), "{text}");
        }
        for text in [
            A,
            &"a".repeat(64),
            "DEADBEEF",
            "abcdef1",
            &format!("refs/heads/{A}"),
            "refs/pull/1/head",
            "refs/heads/refs/heads/x",
            "refs/heads/",
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a~1",
            "a^{}",
            "a:b",
            "@",
            "a b",
            "a/",
            "a//b",
            ".a",
            "a.lock",
            "m\u{430}in",
            "a\n",
        ] {
            assert_eq!(Asked::read(Some(text)), Err(SourceFault::Reference), "{text}");
        }
    }

    #[test]
    fn only_what_the_host_names_is_found() {
        let lines =
            [("ref: refs/heads/main", "HEAD"), (A, "HEAD"), (A, "refs/heads/main"), (B, "refs/pull/1/head")];
        assert_eq!(find(None, &lines), is("refs/heads/main", A));
        assert_eq!(find(Some("main"), &lines), is("refs/heads/main", A));
        assert_eq!(find(Some("refs/tags/main"), &lines), Err(SourceFault::Reference));
        assert_eq!(find(Some("other"), &lines), Err(SourceFault::Reference));
        assert_eq!(find(Some("pull/1/head"), &lines), Err(SourceFault::Reference));
        assert_eq!(find(None, &[(A, "HEAD")]), is("HEAD", A));
        assert_eq!(
            find(None, &[("ref: refs/heads/x", "HEAD"), (A, "HEAD"), (B, "refs/heads/x")]),
            is("HEAD", A)
        );
        assert_eq!(find(None, &[]), Err(SourceFault::Missing));
        assert_eq!(find(None, &[("x", "HEAD")]), Err(SourceFault::Malformed));
    }

    #[test]
    fn a_tag_is_the_commit_it_is_about_and_a_name_of_two_is_refused() {
        let tag = [(A, "refs/tags/v1"), (B, "refs/tags/v1^{}")];
        assert_eq!(find(Some("v1"), &tag), is("refs/tags/v1", B));
        let both = [(A, "refs/heads/v1"), (B, "refs/tags/v1")];
        for asked in ["v1", "refs/heads/v1", "refs/tags/v1"] {
            assert_eq!(find(Some(asked), &both), Err(SourceFault::Reference), "{asked}");
        }
    }
}
