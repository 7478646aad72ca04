//! Submissions with facts in the spool, in memory: each claim asks for its submission.
//!
//! Invariant: nothing here does I/O. The set follows the directory: a file is entered after it was written, forgotten after
//! it was removed, and files that another process wrote or removed are known after the next look.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// Ending of files to be recorded.
pub(super) const WAITING: &str = ".json";
/// Ending of files that can never be recorded.
pub(super) const BAD: &str = ".bad";
/// Ending of a file that is being written, or whose writer has died.
const UNFINISHED: &str = ".tmp";

/// Kind of a directory entry, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Facts to be recorded.
    Waiting,
    /// Facts set aside.
    Bad,
    /// A file not completed yet.
    Unfinished,
}

impl Part {
    /// The kind of `name`; `None` for a foreign entry.
    pub(super) fn of(name: &str) -> Option<Self> {
        [(WAITING, Self::Waiting), (BAD, Self::Bad), (UNFINISHED, Self::Unfinished)]
            .into_iter()
            .find_map(|(ending, part)| name.ends_with(ending).then_some(part))
    }
}

/// Name of a file without the ending that says whether it is set aside.
pub(super) fn stem(name: &str) -> &str {
    name.strip_suffix(WAITING).or_else(|| name.strip_suffix(BAD)).unwrap_or(name)
}

/// The submission in a spool file's name, so that it is known even where the content is unreadable.
pub(super) fn named(name: &str) -> Option<Uuid> {
    Uuid::try_parse(name.split('.').next()?).ok()
}

/// Submissions with facts in the spool. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Submission and file, without its ending.
    files: BTreeSet<(Uuid, String)>,
    /// Foreign entries that were logged.
    foreign: BTreeSet<OsString>,
}

impl Kept {
    /// Whether facts of the submission lie in the spool.
    pub(super) fn holds(&self, id: Uuid) -> bool {
        self.state().files.range((id, String::new())..).next().is_some_and(|(found, _)| *found == id)
    }

    pub(super) fn all(&self) -> BTreeSet<(Uuid, String)> {
        self.state().files.clone()
    }

    pub(super) fn add(&self, id: Uuid, name: &str) {
        self.state().files.insert((id, stem(name).to_owned()));
    }

    pub(super) fn forget(&self, id: Uuid, name: &str) {
        self.state().files.remove(&(id, stem(name).to_owned()));
    }

    /// Takes in a look at the directory: a file known `before` and not `found` is gone.
    pub(super) fn looked(&self, before: &BTreeSet<(Uuid, String)>, found: &BTreeSet<(Uuid, String)>) {
        let mut state = self.state();
        state.files.retain(|file| found.contains(file) || !before.contains(file));
        state.files.extend(found.iter().cloned());
    }

    /// Whether a foreign entry is to be logged: the first time only.
    pub(super) fn is_news(&self, foreign: &OsString) -> bool {
        self.state().foreign.insert(foreign.clone())
    }

    /// Forgets foreign entries that are gone.
    pub(super) fn foreign_there(&self, there: &BTreeSet<OsString>) {
        self.state().foreign.retain(|name| there.contains(name));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn files(of: &[(u128, &str)]) -> BTreeSet<(Uuid, String)> {
        of.iter().map(|(n, name)| (id(*n), (*name).to_owned())).collect()
    }

    #[test]
    fn a_submission_is_held_while_one_of_its_files_is_there_whatever_its_ending() {
        let kept = Kept::default();
        kept.add(id(2), "a.json");
        kept.add(id(2), "b.json");
        assert_eq!([1, 2, 3].map(|n| kept.holds(id(n))), [false, true, false]);
        kept.forget(id(2), "a.bad");
        assert!(kept.holds(id(2)));
        kept.forget(id(2), "b.json");
        assert!(!kept.holds(id(2)));
    }

    #[test]
    fn a_look_forgets_what_is_gone_and_not_what_was_written_meanwhile() {
        let kept = Kept::default();
        kept.add(id(1), "gone.json");
        let before = kept.all();
        kept.add(id(2), "meanwhile.json");
        kept.looked(&before, &files(&[(3, "foreign")]));
        assert_eq!(kept.all(), files(&[(2, "meanwhile"), (3, "foreign")]));
    }

    #[test]
    fn a_name_tells_what_a_file_is_and_of_whom() {
        let nil = Uuid::nil().to_string();
        let table = [
            (format!("{nil}.n.json"), Some(Part::Waiting), Some(Uuid::nil())),
            (format!("{nil}.n.bad"), Some(Part::Bad), Some(Uuid::nil())),
            (format!(".{nil}.n.json.7.tmp"), Some(Part::Unfinished), None),
            ("notes.json".to_owned(), Some(Part::Waiting), None),
            ("lost+found".to_owned(), None, None),
        ];
        for (name, part, of) in table {
            assert_eq!((Part::of(&name), named(&name)), (part, of), "{name}");
        }
    }

    #[test]
    fn what_is_not_ours_is_named_once_while_it_is_there() {
        let (kept, name) = (Kept::default(), OsString::from("lost+found"));
        assert_eq!([kept.is_news(&name), kept.is_news(&name)], [true, false]);
        kept.foreign_there(&BTreeSet::from([name.clone()]));
        assert!(!kept.is_news(&name));
        kept.foreign_there(&BTreeSet::new());
        assert!(kept.is_news(&name));
    }
}
